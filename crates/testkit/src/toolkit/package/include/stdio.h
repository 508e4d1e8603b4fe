// As much of the C library as a kernel may name.
#pragma once
#pragma GCC system_header

extern "C" int printf(const char *format, ...);
