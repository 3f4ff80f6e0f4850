// The harness as a separate object: compiled once per compiler and set of flags, and linked to
// every benchmark file that `speedwell` builds, to avoid compiling it again.
#include "speedwell.hpp"
