/* fuzz_xpress: where the input is LZ77 + Huffman, the code lengths of its first block are made a whole set of codes
 * after every change, because nearly no bytes are one by chance. */
#include <stddef.h>
#include <stdint.h>

size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t max_size);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed);

enum { SYMBOLS = 512, LONGEST = 15, TABLE_BYTES = SYMBOLS / 2, HUFFMAN = 1 };

static unsigned length_of(const uint8_t *table, unsigned symbol) {
    return symbol & 1 ? table[symbol / 2] >> 4 : table[symbol / 2] & 15;
}

static void set_length(uint8_t *table, unsigned symbol, unsigned length) {
    uint8_t *b = &table[symbol / 2];
    *b = (uint8_t)(symbol & 1 ? (*b & 15) | length << 4 : (*b & 0xf0) | length);
}

static void mend(uint8_t *table) {
    unsigned left = 1u << LONGEST;
    for (unsigned s = 0; s < SYMBOLS; s++) {
        unsigned length = length_of(table, s);
        while (length && length < LONGEST && 1u << (LONGEST - length) > left)
            length++;
        if (length && 1u << (LONGEST - length) > left)
            length = 0;
        left -= length ? 1u << (LONGEST - length) : 0;
        set_length(table, s, length);
    }
    for (unsigned length = 1, s = 0; length <= LONGEST && left; length++)
        while (left >= 1u << (LONGEST - length)) {
            while (s < SYMBOLS && length_of(table, s))
                s++;
            if (s == SYMBOLS)
                return;
            set_length(table, s, length);
            left -= 1u << (LONGEST - length);
        }
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed) {
    size = LLVMFuzzerMutate(data, size, max_size);
    if (size > TABLE_BYTES && (data[0] & 3) == HUFFMAN && seed % 8)
        mend(data + 1);
    return size;
}
