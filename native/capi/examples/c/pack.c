/* Packs a checkpoint and shows the progress. Ctrl-C stops it and leaves no output:
 *     pack MODEL.safetensors MODEL.zstn */
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>

#include <zstn.h>

static volatile sig_atomic_t is_interrupted;

static void interrupt(int signal) {
    (void)signal;
    is_interrupted = 1;
}

static int32_t show(void *ctx, int32_t phase, uint64_t done, uint64_t total) {
    (void)ctx;
    (void)phase;
    fprintf(stderr, "\r%" PRIu64 " of %" PRIu64 " bytes", done, total);
    return is_interrupted;
}

int main(int argc, char **argv) {
    zstn_work_options options = ZSTN_INIT;
    zstn_report report = ZSTN_INIT;
    zstn_error error;
    zstn_status status;
    if (argc != 3) {
        fprintf(stderr, "usage: pack MODEL.safetensors MODEL.zstn\n");
        return 2;
    }
    signal(SIGINT, interrupt);
    options.struct_size = sizeof options;
    options.progress = show;
    report.struct_size = sizeof report;
    status = zstn_pack_path(argv[1], argv[2], &options, &report, &error);
    fprintf(stderr, "\n");
    if (status == ZSTN_ERROR_CANCELLED) {
        return 130;
    }
    if (status != ZSTN_OK) {
        fprintf(stderr, "error: %s\n", error.message);
        return 1;
    }
    printf("%" PRIu64 " bytes of %" PRIu64 "\n", report.packed_len, report.original_len);
    return 0;
}
