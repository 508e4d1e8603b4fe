#pragma once

struct FusedMatmulTiling {
    uint32_t m;
    uint32_t n;
    uint32_t k;
};
