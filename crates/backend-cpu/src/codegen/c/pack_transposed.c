/* Fills a panel with rows `begin` to `end` of b, `columns` columns from the `first` on. In memory b's columns are rows,
   so a few elements of each are taken at a time. */
static void pack(const float *b, long begin, long end, long first, long columns, float *panel)
{
    for (long some = begin; some < end; some += 16) {
        const long last = least(some + 16, end);
        long i = 0;
        for (; i < columns; i++)
            for (long k = some; k < last; k++)
                panel[(k - begin) * PITCH + i] = b[(first + i) * DEPTH + k];
        for (; i % TILE_COLUMNS != 0; i++)
            for (long k = some; k < last; k++)
                panel[(k - begin) * PITCH + i] = 0;
    }
}
