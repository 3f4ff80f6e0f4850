'use strict';

// Sample URLs for benchmarks of URL code. The kinds have the names that Node core's benchmarks request; the URLs
// are our own. Decides how many are returned and in which form.

const fs = require('fs');
const path = require('path');
const { mainFile } = require('./benchmark.js');

const urls = {
  long: 'http://speedwell.example:8081/garden/plants/veronica/2f7c90aa51d3/beds/77/rows/12/' +
    'c0ffee00d15ea5e/label.html#watering?season=spring&shade=half&depth=12&sun=false&' +
    'place=51.477.811.002&seen=9081726354453627&rows=4410&17&token=0b1a29384756c7d8e9fa0b1c2d3e4f56',
  short: 'https://speedwell.example/en/start/',
  idn: 'http://ehrenpreis-blüht.例え',
  auth: 'https://gardener:secret@plants.example/search?bed=7',
  file: 'file:///srv/garden/beds/seven.js',
  ws: 'ws://localhost:9300/3e1f0a52-7bd4-4c9a-91c6-5d2f8e7a6b10',
  javascript: 'javascript:alert("a speedwell is blue");',
  percent: 'https://%E8%8A%B1%E5%9B%AD/beds',
  dot: 'https://plants.example/./beds/../paths/./gate',
};

const urlDataTypes = [...Object.keys(urls), 'wpt'];

/** How many copies of a sample are returned: about as many as the web platform tests have URLs. */
const COPIES = 200;
const WPT_DATA = ['test', 'fixtures', 'wpt', 'url', 'resources', 'urltestdata.json'];

/**
 * Returns a list of URLs of kind `type` (a key of `urls`, or `wpt`), doubled `e` times; with `withBase` pairs
 * `[url, base]`, with `asUrl` URL objects.
 */
function bakeUrlData(type, e = 0, withBase = false, asUrl = false) {
  let list = samples(type, withBase);
  if (typeof e !== 'number') throw new Error(`e must be a number, received ${e}`);
  for (let doubled = 0; doubled < e; doubled++) list = [...list, ...list];
  if (!asUrl) return list;
  return withBase ? list.map(([input, base]) => new URL(input, base)) : list.map((input) => new URL(input));
}

function samples(type, withBase) {
  if (type === 'wpt') return webPlatformTests(withBase);
  if (!urls[type]) throw new Error(`Unknown url data type ${type}`);
  return new Array(COPIES).fill(withBase ? [urls[type], 'about:blank'] : urls[type]);
}

/** Valid inputs of the web platform tests: pairs with their base, or only the bases, which are plain URLs. */
function webPlatformTests(withBase) {
  const valid = JSON.parse(fs.readFileSync(webPlatformTestFile(), 'utf8'))
    .filter((test) => typeof test === 'object' && !test.failure && test.input);
  if (withBase) return valid.map(({ input, base }) => [input, base ?? undefined]);
  return valid.map(({ base }) => base).filter((base) => typeof base === 'string');
}

/** The data are part of a checkout of Node, so they are searched for in the folders above the benchmark file. */
function webPlatformTestFile() {
  for (let folder = path.dirname(mainFile()); ; folder = path.dirname(folder)) {
    const file = path.join(folder, ...WPT_DATA);
    if (fs.existsSync(file)) return file;
    if (folder === path.dirname(folder)) {
      throw new Error(`URL data of type 'wpt' needs '${WPT_DATA.join('/')}' in a folder above the benchmark file`);
    }
  }
}

exports.urls = urls;
exports.urlDataTypes = urlDataTypes;
exports.bakeUrlData = bakeUrlData;
