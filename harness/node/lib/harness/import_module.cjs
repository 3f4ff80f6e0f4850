'use strict';

// `import()` for files that are joined with others: what is compiled as a script by itself has none of its own.

exports.importModule = (address) => import(address);
