/* Adds to `rows` x `columns` elements of y the products of `depth` columns of a and as many rows of the panel: whole
   sums, formed in the order of k. `columns` fit `vectors` vectors; the panel fills them all. */
static inline __attribute__((always_inline)) void tile(
    const int rows, const int vectors, const float *a, const float *panel, long depth, float *y, long columns)
{
    vec sum[TILE_ROWS][VECTORS];
    for (int r = 0; r < rows; r++)
        for (int v = 0; v < vectors; v++)
            sum[r][v] = (vec){0};
    for (long k = 0; k < depth; k++)
        for (int r = 0; r < rows; r++) {
            const float factor = a[r * A_ROW + k * A_DEPTH];
            for (int v = 0; v < vectors; v++)
                sum[r][v] += factor * *(const vec *)(panel + k * PITCH + v * LANES);
        }
    for (int r = 0; r < rows; r++) {
        float *out = y + r * COLUMNS;
        if (columns >= vectors * LANES)
            for (int v = 0; v < vectors; v++)
                *(vec *)(out + v * LANES) += sum[r][v];
        else
            for (long i = 0; i < columns; i++)
                out[i] += sum[r][i / LANES][i % LANES];
    }
}

/* Rows `row` to `last` of a tile's columns. */
static inline __attribute__((always_inline)) void tiles(
    const int vectors, const float *a, const float *panel, long depth, float *y, long row, long last, long columns)
{
    for (; row + TILE_ROWS <= last; row += TILE_ROWS)
        tile(TILE_ROWS, vectors, a + row * A_ROW, panel, depth, y + row * COLUMNS, columns);
#if ROWS % TILE_ROWS != 0
    if (row < last)
        tile(ROWS % TILE_ROWS, vectors, a + row * A_ROW, panel, depth, y + row * COLUMNS, columns);
#endif
}

/* As many tiles as it takes. A group of rows of a and one tile's columns of the panel stay in the first cache. */
static void multiply(const float *a, const float *panel, long depth, float *y, long rows, long columns)
{
    for (long row = 0; row < rows; row += GROUP_ROWS) {
        const long last = least(row + GROUP_ROWS, rows);
        for (long column = 0; column < columns; column += TILE_COLUMNS) {
            const long rest = columns - column;
            if (VECTORS == 1 || rest > LANES)
                tiles(VECTORS, a, panel + column, depth, y + column, row, last, least(rest, TILE_COLUMNS));
            else
                tiles(1, a, panel + column, depth, y + column, row, last, rest);
        }
    }
}
