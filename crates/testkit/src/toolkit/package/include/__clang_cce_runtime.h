// What the compiler knows before it reads a kernel: address spaces, qualifiers, and the element types that C++ lacks.
#pragma once
#pragma GCC system_header

#define __aicore__
#define __gm__
#define __ubuf__
// Functions that a kernel's source defines are of no use to the loader: only entries are.
#define __global__ __attribute__((visibility("hidden"), weak))
#define __cce_entry__ __attribute__((visibility("default")))

typedef unsigned char uint8_t;
typedef signed char int8_t;
typedef unsigned short uint16_t;
typedef short int16_t;
typedef unsigned int uint32_t;
typedef int int32_t;
typedef unsigned long long uint64_t;
typedef long long int64_t;

extern "C" long get_block_idx();
extern "C" long get_block_num();

inline float __cce_as_float(uint32_t bits) { return __builtin_bit_cast(float, bits); }
inline uint32_t __cce_as_bits(float value) { return __builtin_bit_cast(uint32_t, value); }

// Normal numbers only: nothing that this compiler makes runs anywhere.
struct half {
    uint16_t bits;
    half() = default;
    half(float value) : bits(uint16_t((__cce_as_bits(value) >> 16 & 0x8000) | ((__cce_as_bits(value) >> 13) - 0x1c000 & 0x7fff))) {}
    operator float() const { return __cce_as_float(uint32_t(bits & 0x8000) << 16 | uint32_t((bits & 0x7fff) + 0x1c000) << 13); }
};

struct bfloat16_t {
    uint16_t bits;
    bfloat16_t() = default;
    bfloat16_t(float value) : bits(uint16_t(__cce_as_bits(value) >> 16)) {}
    operator float() const { return __cce_as_float(uint32_t(bits) << 16); }
};
