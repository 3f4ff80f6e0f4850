/* The same program for C++: compilers choose the language by the file
 * extension. */
#include "main.c"
