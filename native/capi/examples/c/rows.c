/* Lists the tensors of a model, given as a path or an address, or prints the first
 * rows of one tensor in hex:
 *     rows MODEL [TENSOR [ROWS]] */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <zstn.h>

static int complain(const zstn_error *error) {
    fprintf(stderr, "error: %s\n", error->message);
    return 1;
}

static int list(const zstn_reader *reader) {
    const zstn_model *model = zstn_reader_model(reader);
    zstn_error error;
    size_t number, dimension;
    for (number = 0; number < zstn_model_tensor_count(model); number++) {
        zstn_tensor tensor = ZSTN_INIT;
        tensor.struct_size = sizeof tensor;
        if (zstn_model_tensor(model, number, &tensor, &error) != ZSTN_OK) {
            return complain(&error);
        }
        printf("%s %s [", tensor.name, tensor.dtype);
        for (dimension = 0; dimension < tensor.rank; dimension++) {
            printf("%s%" PRIu64, dimension == 0 ? "" : ", ", tensor.shape[dimension]);
        }
        printf("] %" PRIu64 " bytes, %" PRIu64 " stored\n", tensor.len, tensor.stored_len);
    }
    return 0;
}

static int print_rows(const zstn_reader *reader, const char *name, uint64_t rows) {
    const zstn_model *model = zstn_reader_model(reader);
    zstn_tensor tensor = ZSTN_INIT;
    zstn_error error;
    size_t number, len, byte;
    unsigned char *bytes;
    tensor.struct_size = sizeof tensor;
    if (zstn_model_find(model, name, &number, &error) != ZSTN_OK ||
        zstn_model_tensor(model, number, &tensor, &error) != ZSTN_OK) {
        return complain(&error);
    }
    if (tensor.rank == 0 || rows > tensor.shape[0]) {
        fprintf(stderr, "error: %s does not have %" PRIu64 " rows\n", name, rows);
        return 1;
    }
    len = rows == 0 ? 0 : (size_t)(tensor.len / tensor.shape[0] * rows);
    bytes = (unsigned char *)malloc(len + 1);
    if (bytes == NULL) {
        return 1;
    }
    if (zstn_read_rows(reader, name, 0, rows, bytes, len, &error) != ZSTN_OK) {
        free(bytes);
        return complain(&error);
    }
    for (byte = 0; byte < len; byte++) {
        printf("%02x", bytes[byte]);
    }
    printf("\n");
    free(bytes);
    return 0;
}

int main(int argc, char **argv) {
    zstn_reader *reader;
    zstn_error error;
    int result;
    if (argc < 2) {
        fprintf(stderr, "usage: rows MODEL [TENSOR [ROWS]]\n");
        return 2;
    }
    if (strstr(argv[1], "://") != NULL) {
        if (zstn_open_url(argv[1], NULL, &reader, &error) != ZSTN_OK) {
            return complain(&error);
        }
    } else {
        if (zstn_open_path(argv[1], NULL, &reader, &error) != ZSTN_OK) {
            return complain(&error);
        }
    }
    result = argc == 2 ? list(reader)
                       : print_rows(reader, argv[2], argc > 3 ? strtoull(argv[3], NULL, 10) : 1);
    zstn_reader_free(reader);
    return result;
}
