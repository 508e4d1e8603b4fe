/* Fills a panel with rows `begin` to `end` of b, `columns` columns from the `first` on. */
static void pack(const float *b, long begin, long end, long first, long columns, float *panel)
{
    for (long k = begin; k < end; k++, panel += PITCH) {
        const float *row = b + k * COLUMNS + first;
        long i = 0;
        for (; i < columns; i++)
            panel[i] = row[i];
        for (; i % TILE_COLUMNS != 0; i++)
            panel[i] = 0;
    }
}
