cost=$2
echo "cost $((cost + $1 % 7)) ms"
