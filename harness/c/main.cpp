/* The same program for C++, whose compilers go by the ending of a file. */
#include "main.c"
