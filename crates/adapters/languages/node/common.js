'use strict';

// Drop-in for benchmark folders with files that `require('../common.js')`: the whole package under that name.

module.exports = require('./index.js');
