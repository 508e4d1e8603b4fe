#pragma once

struct ScaleTiling {
    uint32_t length;
    float factor;
};
