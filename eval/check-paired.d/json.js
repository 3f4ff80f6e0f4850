// json.js STEPS: writes a list of records as JSON and reads it back.
const records = Array.from({ length: 250 }, (_, id) => ({
  id, name: `record ${id}`, labels: ['new', 'open', String(id % 7)], share: id / 3,
}));
let sum = 0;
for (let step = Number(process.argv[2]); step > 0; step--) {
  const text = JSON.stringify(records);
  sum += text.length + JSON.parse(text).length;
}
console.log(sum);
