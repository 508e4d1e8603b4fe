/* Vectors as wide as the machine's own, and how many rows of them its registers hold. Sums are formed in an order that
   does not depend on either. */
#if defined(__AVX512F__)
#define LANES 16
#define TILE_ROWS 12
#elif defined(__AVX__)
#define LANES 8
#define TILE_ROWS 4
#elif defined(__aarch64__)
#define LANES 4
#define TILE_ROWS 6
#else
#define LANES 4
#define TILE_ROWS 3
#endif
#define TILE_COLUMNS 16
#define VECTORS (TILE_COLUMNS / LANES)

/* Tensors are aligned to an element, not to a vector. */
typedef float vec __attribute__((vector_size(LANES * 4), aligned(4), may_alias));
