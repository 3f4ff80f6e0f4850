# How results.db was made, with version 0.1.0 in a folder with the files beside this one; hyperfine-1.json was hyperfine/failing.json.
# An unreleased version wrote it; its rows were then copied unchanged into the tables of the first released format (101).
# Later, the definition file of session 6 (group.toml) got the metric and key names of the current grammar.
S=speedwell
$S run copy.js --runs 3 --tag run
$S run copy.js len=64 --variant old=node --variant new=node --variant third=node --runs 6 --tag variants
$S run copy.js --set len=16,64,256 --runs 3 --tag study --x-axis len
$S run servers.toml --runs 2 --tag servers
$S run costs.toml --runs 8 --tag experiment
$S run group.toml --runs 2 --tag group
$S eval node 'Math.sqrt(2)' '[1,2,3].map(x => x + 1)' --runs 3 --tag eval
$S eval node 'Math.sqrt(2)' -c max --time 50ms --tag search
node server.js 8181 100 & P=$!; sleep 1
$S load http://127.0.0.1:8181/ -c 4 -n 400 --tag load
$S load http://127.0.0.1:8181/ --rate 300 -t 1s --warmup 100ms --fail-on 'p99 > 1s' --tag rate
$S load http://127.0.0.1:8181/ -c 1,2,4 -t 300ms --tag sweep
kill $P
$S import hyperfine-*.json
cp print.sh quick.sh; echo 'sleep 0.3' >> print.sh
timeout -s INT 1.6 $S run costs.toml --runs 8 --tag interrupted
mv quick.sh print.sh
