'use strict';

// `import()` for bundled files: code compiled as a separate script has none.

exports.importModule = (address) => import(address);
