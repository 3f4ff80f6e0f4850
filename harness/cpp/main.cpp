// The harness by itself: compiled once for each compiler and set of flags, and linked to every
// benchmark file that `speedwell` builds, which then need not compile it again and again.
#include "speedwell.hpp"
