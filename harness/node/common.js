'use strict';

// Drop-in for benchmark folders whose files say `require('../common.js')`: the whole package under that name.

module.exports = require('./index.js');
