#pragma once

struct AddTiling {
    uint32_t blockLength;
    uint32_t tailLength;
};
