'use strict';

// Preload for running benchmark files by hand where the package is not installed: `node -r register.cjs FILE`.
// `require('speedwell')` and, from Node 20.6 on, `import ... from 'speedwell'` then find this copy.

const { provide, provideToModules } = require('./lib/resolve.js');

provide();
if (/\.m[jt]s$/.test(process.argv[1] || '')) provideToModules();
