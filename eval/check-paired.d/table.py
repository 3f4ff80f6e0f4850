# table.py STEPS: counts words in a dictionary.
import sys

counts = {}
for step in range(int(sys.argv[1])):
    word = "word" + str(step * 7919 % 5000)
    counts[word] = counts.get(word, 0) + 1
print(len(counts))
