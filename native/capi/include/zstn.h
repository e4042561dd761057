/*
 * libzstn: reads AI model checkpoints that zstn has packed, packs and restores
 * them. docs/c.md explains it with examples.
 *
 * Generated from native/capi/src by `cargo xtask capi --write`.
 *
 * - Functions that can fail return ZSTN_OK or a negative ZSTN_ERROR_..., and write
 *   the reason to a zstn_error of the caller, which may be NULL. Handles that they
 *   return are NULL after an error.
 * - Every handle is freed by the function for its type, once; NULL is fine.
 *   Memory that a handle owns is valid until the handle is freed.
 * - Pointers to constant data are only used during the call, unless the function
 *   says otherwise.
 * - Texts are UTF-8 and end in a NUL. Lengths are in bytes.
 * - Structures that begin with struct_size are zeroed by the caller (ZSTN_INIT),
 *   who then sets it; a library of another version knows by it which fields there
 *   are.
 * - Engines, models and readers may be used by any number of threads at the same
 *   time. Freeing one is up to the thread that uses it last.
 * - Nothing is ever printed.
 */

#ifndef ZSTN_H
#define ZSTN_H

#include <stddef.h>
#include <stdint.h>
/* The version of this header, as zstn_version_number has it: 0x00MMmmpp. */
#define ZSTN_VERSION_NUMBER 0x00000100

/* All zeros: zstn_input input = ZSTN_INIT; */
#ifdef __cplusplus
#define ZSTN_INIT {}
#else
#define ZSTN_INIT {0}
#endif

/**
 * Success.
 */
#define ZSTN_OK 0

/**
 * The bytes break the rules of their format: damaged, cut short or forged.
 */
#define ZSTN_ERROR_FORMAT -1

/**
 * An operation of the system or a callback failed.
 */
#define ZSTN_ERROR_IO -2

/**
 * A server answered with something else than the bytes asked for.
 */
#define ZSTN_ERROR_HTTP -3

/**
 * Two files that should be equal are not.
 */
#define ZSTN_ERROR_DIFFERS -4

/**
 * The arguments do not make sense.
 */
#define ZSTN_ERROR_USAGE -5

/**
 * A delta cannot be read without its base.
 */
#define ZSTN_ERROR_NEEDS_BASE -6

/**
 * A progress callback asked for an end.
 */
#define ZSTN_ERROR_CANCELLED -7

/**
 * A length exceeds a limit of the library, or does not fit in memory.
 */
#define ZSTN_ERROR_MEMORY -8

/**
 * A defect of the library. The handles of the call should only be freed.
 */
#define ZSTN_ERROR_PANIC -9

/**
 * The bytes are in order, but this version cannot handle what they hold.
 */
#define ZSTN_ERROR_UNSUPPORTED -10

/**
 * There is no tensor of that name.
 */
#define ZSTN_ERROR_NOT_FOUND -11

/**
 * The output exists and may not be replaced.
 */
#define ZSTN_ERROR_EXISTS -12

/**
 * A file has changed since it was opened.
 */
#define ZSTN_ERROR_CHANGED -13

/**
 * A delta belongs to another base than the one that was given.
 */
#define ZSTN_ERROR_WRONG_BASE -14

/**
 * The work that was asked for; its bytes are those of the original.
 */
#define ZSTN_PHASE_WORK 0

/**
 * An input is fetched; a total of 0 means that its length is not known.
 */
#define ZSTN_PHASE_FETCH 1

/**
 * A packed base is restored first.
 */
#define ZSTN_PHASE_RESTORE_BASE 2

/**
 * In place of a tensor's number: there is none.
 */
#define ZSTN_NONE 18446744073709551615ull

/**
 * In place of the number of the row after the last: all rows. A plan for rows 0
 * to `ZSTN_ALL_ROWS` is one for the whole tensor, whatever its shape.
 */
#define ZSTN_ALL_ROWS 18446744073709551615ull

/**
 * Weights in the formats of compressed-tensors are read dense, if a `config.json`
 * next to the files says how they are stored.
 */
#define ZSTN_VIEW_DENSE 0

/**
 * Every tensor is read as it is stored.
 */
#define ZSTN_VIEW_STORED 1

/**
 * The usual trade-off of time against size.
 */
#define ZSTN_EFFORT_BALANCED 0

/**
 * Less time, a little larger.
 */
#define ZSTN_EFFORT_FAST 1

/**
 * Smaller, several times the time.
 */
#define ZSTN_EFFORT_MAX 2

/**
 * Threads that decode and encode. Readers and functions that are given none
 * share an engine with a thread for each processor, which is made when it is
 * first needed and stays. Any number of threads may use one engine at the same
 * time.
 */
typedef struct zstn_engine zstn_engine;

/**
 * The list of a model's tensors: names, types, shapes, and where they are. It
 * never changes; any number of threads may use one at the same time.
 */
typedef struct zstn_model zstn_model;

/**
 * A file that is being opened. One thread at a time may use it.
 */
typedef struct zstn_opening zstn_opening;

/**
 * The ranges to fetch for a tensor or some of its rows, and the way to decode
 * them. One thread at a time may change a plan, by
 * `zstn_plan_supply`; otherwise any number may use it. It keeps what it needs
 * of the model.
 */
typedef struct zstn_plan zstn_plan;

/**
 * An opened model. Any number of threads may read from one at the same time.
 */
typedef struct zstn_reader zstn_reader;

/**
 * The result of a function: `ZSTN_OK`, or one of the negative `ZSTN_ERROR_...`.
 * Later versions may add more of them.
 */
typedef int32_t zstn_status;

/**
 * The reason of an error, in memory of the caller. A function that fails
 * overwrites it; one that succeeds leaves it as it is.
 */
typedef struct {
    /**
     * The status that the function returned.
     */
    int32_t code;
    /**
     * The problem, its place, and what to do: UTF-8 text that ends in a NUL. A
     * longer one is cut off.
     */
    char message[1020];
} zstn_error;

/**
 * The index entry of a tensor. The caller sets `struct_size`. Texts and
 * shape belong to the model and are valid as long as it is.
 */
typedef struct {
    /**
     * `sizeof(zstn_tensor)`.
     */
    size_t struct_size;
    /**
     * Name, which ends in a NUL.
     */
    const char *name;
    /**
     * Length of the name in bytes: a forged name may contain a NUL.
     */
    size_t name_len;
    /**
     * Element type as safetensors spells it, like "BF16".
     */
    const char *dtype;
    /**
     * Lengths of the dimensions, outermost first.
     */
    const uint64_t *shape;
    /**
     * Number of dimensions; 0 for a scalar.
     */
    size_t rank;
    /**
     * Length of the tensor in bytes: little-endian and row-major.
     */
    uint64_t len;
    /**
     * Bytes that it takes in its file.
     */
    uint64_t stored_len;
    /**
     * Number of another tensor with the same bytes, or `ZSTN_NONE`. Files of other
     * programs may have it later in the list.
     */
    uint64_t alias_of;
    /**
     * Bits of an element.
     */
    int32_t dtype_bits;
    /**
     * 1 if it can only be read together with a base.
     */
    int32_t needs_base;
} zstn_tensor;

/**
 * An entry of a model's metadata. Texts belong to the model.
 */
typedef struct {
    /**
     * Key, which ends in a NUL.
     */
    const char *key;
    /**
     * Length of the key in bytes.
     */
    size_t key_len;
    /**
     * Value, which ends in a NUL.
     */
    const char *value;
    /**
     * Length of the value in bytes.
     */
    size_t value_len;
} zstn_metadata;

/**
 * Bytes of a file to fetch.
 */
typedef struct {
    /**
     * The first byte, from the start of the file.
     */
    uint64_t offset;
    /**
     * Number of bytes.
     */
    uint64_t len;
    /**
     * Number of the file, for a model in several; 0 for the first.
     */
    uint64_t file;
} zstn_range;

/**
 * Bytes of the caller.
 */
typedef struct {
    /**
     * The first byte; may be NULL if there are none.
     */
    const void *data;
    /**
     * Number of bytes.
     */
    size_t len;
} zstn_bytes;

/**
 * Options for opening a model. Zeros ask for what is usual.
 */
typedef struct {
    /**
     * `sizeof(zstn_open_options)`.
     */
    size_t struct_size;
    /**
     * Decodes the tensors; NULL for the shared engine.
     */
    const zstn_engine *engine;
    /**
     * The base of a delta, opened with `ZSTN_VIEW_STORED`; NULL for none. It may
     * be freed after the call.
     */
    const zstn_reader *base;
    /**
     * Token for the server of an address, which no other server receives; NULL
     * for none. `hf://` addresses have that of `$HF_TOKEN` by default.
     */
    const char *token;
    /**
     * Bytes of decoded tensors that are kept for further calls of
     * `zstn_unpacked_read_at`; 0 for 256 MiB.
     */
    uint64_t cache_len;
    /**
     * `ZSTN_VIEW_DENSE` or `ZSTN_VIEW_STORED`.
     */
    int32_t view;
    /**
     * 0.
     */
    int32_t reserved;
    /**
     * The longest file that is read whole from a server that ignores range requests;
     * 0 for 64 MiB, 1 to refuse such servers.
     */
    uint64_t max_full_download_len;
} zstn_open_options;

/**
 * A file that callbacks read. Its bytes must not change while it is open.
 *
 * The callbacks are called by any thread, several at the same time; one that
 * waits keeps no other from working. They must not throw exceptions or jump out.
 */
typedef struct {
    /**
     * `sizeof(zstn_io)`.
     */
    size_t struct_size;
    /**
     * Passed to the callbacks.
     */
    void *ctx;
    /**
     * Reads up to `len` bytes at `offset` into `buffer` and returns how many it
     * has read. Fewer than `len` are fine; 0 means that there are no more. A
     * negative result is an error, whose number appears in the message.
     */
    int64_t (*read_at)(void *ctx, uint64_t offset, void *buffer, size_t len);
    /**
     * Called once when `ctx` is not needed any more, by any thread; may be NULL.
     * It is also called if the function that was given the structure fails,
     * unless the structure itself is not valid.
     */
    void (*release)(void *ctx);
    /**
     * Name for messages, which is copied; may be NULL.
     */
    const char *name;
} zstn_io;

/**
 * A tensor to read, and where to.
 */
typedef struct {
    /**
     * Number of the tensor.
     */
    size_t tensor;
    /**
     * The buffer.
     */
    void *out;
    /**
     * Bytes that the buffer has room for.
     */
    size_t capacity;
} zstn_target;

/**
 * Called with the bytes that are done, out of a total, the last time right before
 * the output appears. A result other than 0 ends the work with
 * `ZSTN_ERROR_CANCELLED`: nothing appears then. Calls come from any thread, but
 * never two at a time. It must not call the library with the engine of the work,
 * nor with NULL if that is the shared one: such a call may wait forever.
 */
typedef int32_t (*zstn_progress)(void *ctx,
                                 int32_t phase,
                                 uint64_t done,
                                 uint64_t total);

/**
 * The safetensors file that a model amounts to. The caller sets `struct_size`.
 */
typedef struct {
    /**
     * `sizeof(zstn_unpacked)`.
     */
    size_t struct_size;
    /**
     * Length of the file in bytes.
     */
    uint64_t len;
    /**
     * 1 if it is, byte for byte, the file that was packed; 0 if its header was
     * made by the library.
     */
    int32_t is_original;
    /**
     * 1 if `sha256` is known.
     */
    int32_t has_sha256;
    /**
     * SHA-256 of the file, which model hubs and git-lfs know it by.
     */
    uint8_t sha256[32];
} zstn_unpacked;

/**
 * A checkpoint to work on: exactly one of `path`, `url` and `io` is set.
 */
typedef struct {
    /**
     * `sizeof(zstn_input)`.
     */
    size_t struct_size;
    /**
     * Path of a file, of the index of a checkpoint in several files, or of a
     * folder that holds one.
     */
    const char *path;
    /**
     * Address of a file or an index: `https://...`, `hf://OWNER/NAME/FILE`.
     */
    const char *url;
    /**
     * Callbacks that read a file.
     */
    const zstn_io *io;
    /**
     * Length of that file in bytes.
     */
    uint64_t io_len;
} zstn_input;

/**
 * An output that callbacks receive, in order. Bytes that were written are never
 * revised; after an error they are the beginning of a file and worth nothing.
 * The callbacks may be called by any thread, one at a time.
 */
typedef struct {
    /**
     * `sizeof(zstn_writer)`.
     */
    size_t struct_size;
    /**
     * Passed to the callbacks.
     */
    void *ctx;
    /**
     * Takes the next bytes, all of them. A result other than 0 is an error, whose
     * number appears in the message.
     */
    int32_t (*write)(void *ctx, const void *data, size_t len);
} zstn_writer;

/**
 * The place of an output: exactly one of `path`, `url` and `writer` is set. A file
 * or an object appears when it is complete.
 */
typedef struct {
    /**
     * `sizeof(zstn_output)`.
     */
    size_t struct_size;
    /**
     * Path of a file, or of a folder for a checkpoint in several.
     */
    const char *path;
    /**
     * Address that is written to.
     */
    const char *url;
    /**
     * Callbacks that receive a file.
     */
    const zstn_writer *writer;
} zstn_output;

/**
 * Options for work on a whole checkpoint. Zeros ask for what is usual.
 */
typedef struct {
    /**
     * `sizeof(zstn_work_options)`.
     */
    size_t struct_size;
    /**
     * Works on the checkpoint; NULL for the shared engine.
     */
    const zstn_engine *engine;
    /**
     * The base of a delta; if that is a delta too, the base of that one, and so
     * on.
     */
    const zstn_input *const *bases;
    /**
     * Number of bases; 0 for none.
     */
    size_t base_count;
    /**
     * Token for the server of an input's address, which no other server receives;
     * NULL for none.
     */
    const char *token;
    /**
     * Watches the work; NULL for none.
     */
    zstn_progress progress;
    /**
     * Passed to `progress`.
     */
    void *progress_ctx;
    /**
     * For packing: the 32 bytes of the SHA-256 of the input, a single file, which is
     * then not computed but taken on trust; NULL for none. `zstn_unpack` and
     * `zstn_verify` compare it, and fail if it is wrong.
     */
    const uint8_t *sha256;
    /**
     * Bytes of memory to stay within, roughly; 0 for what is usual.
     */
    uint64_t memory;
    /**
     * 1 replaces an existing output; by default that is `ZSTN_ERROR_EXISTS`.
     */
    int32_t overwrite;
    /**
     * For packing: one of `ZSTN_EFFORT_...`.
     */
    int32_t effort;
    /**
     * For packing: 1 leaves the checksums out.
     */
    int32_t no_checksums;
    /**
     * For packing: 1 packs a file that was cut short; by default it is refused.
     */
    int32_t allow_truncated;
    /**
     * For packing: 1 leaves the statistics of the tensors out.
     */
    int32_t no_statistics;
    /**
     * For packing: 1 writes extension frames where they are smaller. A file with
     * one is read by zstn 0.1 and later.
     */
    int32_t extended;
} zstn_work_options;

/**
 * The result of work on a checkpoint. The caller sets `struct_size`.
 */
typedef struct {
    /**
     * `sizeof(zstn_report)`.
     */
    size_t struct_size;
    /**
     * Number of files that were packed, restored or verified.
     */
    uint64_t files;
    /**
     * Number of tensors that were packed or verified; 0 for unpacking.
     */
    uint64_t tensors;
    /**
     * Length of the packed files in bytes.
     */
    uint64_t packed_len;
    /**
     * Length of the original files in bytes.
     */
    uint64_t original_len;
    /**
     * For verifying: 1 if all tensors were compared with those of the original.
     */
    int32_t was_compared;
    /**
     * For verifying: 1 if every byte was compared with checksums in the files.
     */
    int32_t has_checksums;
    /**
     * For verifying: 1 if every byte of every file was compared with the original and
     * is the same.
     */
    int32_t is_identical;
    /**
     * For verifying a folder: the number of files that were not checked, since copied
     * files have no checksums.
     */
    uint32_t unchecked_files;
} zstn_report;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/**
 * Returns the version of the library as `0x00MMmmpp`. `ZSTN_VERSION_NUMBER` is
 * that of the header.
 */
uint32_t zstn_version_number(void);

/**
 * Returns the version of the library as text, like "0.1.0".
 */
const char *zstn_version(void);

/**
 * Returns a short name of a status, like "needs_base"; "unknown" for others.
 */
const char *zstn_status_name(int32_t status);

/**
 * Starts an engine with `threads` threads; 0 means one for each processor. More than
 * eight for each processor, or 16 if that is more, are refused.
 */
zstn_status zstn_engine_new(uint32_t threads,
                            zstn_engine **engine,
                            zstn_error *error);

/**
 * Stores the number of threads of an engine; `engine` may be NULL for the shared
 * one.
 */
zstn_status zstn_engine_threads(const zstn_engine *engine,
                                uint32_t *threads,
                                zstn_error *error);

/**
 * Frees an engine. Its threads end when the last reader that uses them is freed.
 * NULL is fine.
 */
void zstn_engine_free(zstn_engine *engine);

/**
 * Returns the number of tensors; 0 for NULL.
 */
size_t zstn_model_tensor_count(const zstn_model *model);

/**
 * Fills `tensor` with what the index says about the tensor of this number. The
 * order is that of the index.
 */
zstn_status zstn_model_tensor(const zstn_model *model,
                              size_t number,
                              zstn_tensor *tensor,
                              zstn_error *error);

/**
 * Stores the number of the tensor called `name`.
 */
zstn_status zstn_model_find(const zstn_model *model,
                            const char *name,
                            size_t *number,
                            zstn_error *error);

/**
 * Returns the number of entries of metadata; 0 for NULL.
 */
size_t zstn_model_metadata_count(const zstn_model *model);

/**
 * Fills `entry` with the entry of metadata of this number; they are sorted by
 * key.
 */
zstn_status zstn_model_metadata(const zstn_model *model,
                                size_t number,
                                zstn_metadata *entry,
                                zstn_error *error);

/**
 * Returns the kind of the model's files, like "zstn" or "safetensors", which
 * belongs to the model; NULL for NULL.
 */
const char *zstn_model_kind(const zstn_model *model);

/**
 * Returns 1 if the model is a delta, which can only be read together with a base;
 * 0 if not, and for NULL.
 */
int32_t zstn_model_needs_base(const zstn_model *model);

/**
 * Frees a model that `zstn_opening_finish` has returned. Its plans may be used on.
 * NULL is fine.
 */
void zstn_model_free(zstn_model *model);

/**
 * Returns the number of bytes from the start of a file of `file_len` bytes that
 * `zstn_opening_new` wants.
 */
uint64_t zstn_head_len(uint64_t file_len);

/**
 * Begins to open a file of `file_len` bytes, of any kind. `head` are its first
 * bytes, at least `zstn_head_len(file_len)` of them; they are copied.
 */
zstn_status zstn_opening_new(uint64_t file_len,
                             const void *head,
                             size_t head_len,
                             zstn_opening **opening,
                             zstn_error *error);

/**
 * Asks which ranges are missing. `*count` is the number of ranges that `ranges`
 * has room for, and becomes the number of those there are; the first of them
 * are stored. 0 means that `zstn_opening_finish` can be called. `ranges` may be
 * NULL to ask for their number. They do not overlap, and may be fetched at the
 * same time; after that, ask again: there are few rounds.
 */
zstn_status zstn_opening_needs(const zstn_opening *opening,
                               zstn_range *ranges,
                               size_t *count,
                               zstn_error *error);

/**
 * Adds the bytes of a range that `zstn_opening_needs` has named, all of them;
 * they are copied.
 */
zstn_status zstn_opening_supply(zstn_opening *opening,
                                uint64_t offset,
                                const void *bytes,
                                size_t len,
                                zstn_error *error);

/**
 * Returns the model, when no bytes are missing. Weights are as they are stored;
 * `zstn_open_path` also reads a `config.json`. `engine` may be NULL. The opening
 * is done then, also after an error other than missing bytes, and has to be
 * freed all the same.
 */
zstn_status zstn_opening_finish(zstn_opening *opening,
                                const zstn_engine *engine,
                                zstn_model **model,
                                zstn_error *error);

/**
 * Frees an opening. NULL is fine.
 */
void zstn_opening_free(zstn_opening *opening);

/**
 * Plans to read rows `row_begin` up to, not including, `row_end` of a tensor:
 * slices of its outermost dimension. 0 and `ZSTN_ALL_ROWS` ask for the whole
 * tensor.
 */
zstn_status zstn_plan_tensor(const zstn_model *model,
                             const char *name,
                             uint64_t row_begin,
                             uint64_t row_end,
                             zstn_plan **plan,
                             zstn_error *error);

/**
 * Asks what the plan itself needs: some rows take a table of blocks that did not
 * come with the index. As `zstn_opening_needs`; 0 ranges mean that the plan is
 * ready.
 */
zstn_status zstn_plan_needs(const zstn_plan *plan,
                            zstn_range *ranges,
                            size_t *count,
                            zstn_error *error);

/**
 * Adds the bytes of a range that `zstn_plan_needs` has named.
 */
zstn_status zstn_plan_supply(zstn_plan *plan,
                             uint64_t offset,
                             const void *bytes,
                             size_t len,
                             zstn_error *error);

/**
 * Asks which ranges `zstn_plan_decode` takes, in this order. As
 * `zstn_opening_needs`.
 */
zstn_status zstn_plan_parts(const zstn_plan *plan,
                            zstn_range *ranges,
                            size_t *count,
                            zstn_error *error);

/**
 * Returns the length in bytes of what the plan decodes; 0 for NULL.
 */
uint64_t zstn_plan_len(const zstn_plan *plan);

/**
 * Decodes into `out`, which has room for `capacity` bytes and at least
 * `zstn_plan_len`. `parts` are the bytes of the ranges of `zstn_plan_parts`, in
 * their order. What the file has checksums of is compared with them. `engine`
 * may be NULL. `out` may hold anything after an error.
 */
zstn_status zstn_plan_decode(const zstn_engine *engine,
                             const zstn_plan *plan,
                             const zstn_bytes *parts,
                             size_t part_count,
                             void *out,
                             size_t capacity,
                             zstn_error *error);

/**
 * Frees a plan. NULL is fine.
 */
void zstn_plan_free(zstn_plan *plan);

/**
 * Opens a model of any kind: a file, the index of a checkpoint in several files,
 * or a folder that holds one. `options` may be NULL. The path is as the system
 * takes it, UTF-8 on Windows.
 */
zstn_status zstn_open_path(const char *path,
                           const zstn_open_options *options,
                           zstn_reader **reader,
                           zstn_error *error);

/**
 * Opens a model at an address: `https://...`, or `hf://OWNER/NAME/FILE` for a file
 * of a model hub. Only what is read is fetched. `options` may be NULL.
 */
zstn_status zstn_open_url(const char *url,
                          const zstn_open_options *options,
                          zstn_reader **reader,
                          zstn_error *error);

/**
 * Opens a model in one file of `len` bytes that callbacks read. The structure is
 * copied. `options` may be NULL.
 */
zstn_status zstn_open_io(const zstn_io *io,
                         uint64_t len,
                         const zstn_open_options *options,
                         zstn_reader **reader,
                         zstn_error *error);

/**
 * Returns the list of the reader's tensors, which belongs to the reader: do not
 * free it. NULL for NULL.
 */
const zstn_model *zstn_reader_model(const zstn_reader *reader);

/**
 * Reads a tensor into `out`, which has room for `capacity` bytes and at least
 * its length. What the file has checksums of is compared with them. `out` may
 * hold anything after an error.
 */
zstn_status zstn_read(const zstn_reader *reader,
                      const char *name,
                      void *out,
                      size_t capacity,
                      zstn_error *error);

/**
 * Reads rows `row_begin` up to, not including, `row_end` of a tensor: slices of
 * its outermost dimension, each as long as the tensor divided by `shape[0]`. No
 * more is read of the file than the blocks that hold them, where the tensor is
 * stored so. Otherwise as `zstn_read`.
 */
zstn_status zstn_read_rows(const zstn_reader *reader,
                           const char *name,
                           uint64_t row_begin,
                           uint64_t row_end,
                           void *out,
                           size_t capacity,
                           zstn_error *error);

/**
 * Reads several tensors at one go: many are decoded at the same time, and from a
 * server or callbacks the next ones are fetched meanwhile. `progress` may be
 * NULL; `ctx` is passed to it. No two buffers may overlap; they may hold anything
 * after an error.
 */
zstn_status zstn_read_many(const zstn_reader *reader,
                           const zstn_target *targets,
                           size_t target_count,
                           zstn_progress progress,
                           void *ctx,
                           zstn_error *error);

/**
 * Frees a reader and closes its files. NULL is fine.
 */
void zstn_reader_free(zstn_reader *reader);

/**
 * Describes the safetensors file that the model amounts to: for a packed file,
 * the file that was packed.
 */
zstn_status zstn_unpacked_describe(const zstn_reader *reader,
                                   zstn_unpacked *unpacked,
                                   zstn_error *error);

/**
 * Reads `len` bytes at `offset` of that file, all of which have to exist. Tensors
 * are decoded where they are read; some are kept for the next call. `out` may
 * hold anything after an error.
 */
zstn_status zstn_unpacked_read_at(const zstn_reader *reader,
                                  uint64_t offset,
                                  void *out,
                                  size_t len,
                                  zstn_error *error);

/**
 * Packs a checkpoint of safetensors without losing a bit: a file into a ZSTN
 * container, or with a base into its difference from that; a folder or an index
 * into a folder. `options` and `report` may be NULL. After an error nothing of
 * the output is left.
 */
zstn_status zstn_pack(const zstn_input *input,
                      const zstn_output *output,
                      const zstn_work_options *options,
                      zstn_report *report,
                      zstn_error *error);

/**
 * Restores what `zstn_pack` has packed, byte for byte. What the packed file says
 * of its bytes is checked before the output gets its name, or a writer anything.
 * Otherwise as `zstn_pack`.
 */
zstn_status zstn_unpack(const zstn_input *input,
                        const zstn_output *output,
                        const zstn_work_options *options,
                        zstn_report *report,
                        zstn_error *error);

/**
 * Decodes everything of a checkpoint and compares it with the checksums in its
 * files, and with `original` unless that is NULL. `options` and `report` may be
 * NULL.
 */
zstn_status zstn_verify(const zstn_input *input,
                        const zstn_input *original,
                        const zstn_work_options *options,
                        zstn_report *report,
                        zstn_error *error);

/**
 * Packs the checkpoint at one path to another: `zstn_pack` for those who need
 * nothing else.
 */
zstn_status zstn_pack_path(const char *input,
                           const char *output,
                           const zstn_work_options *options,
                           zstn_report *report,
                           zstn_error *error);

/**
 * Restores the checkpoint at one path to another: `zstn_unpack` for those who
 * need nothing else.
 */
zstn_status zstn_unpack_path(const char *input,
                             const char *output,
                             const zstn_work_options *options,
                             zstn_report *report,
                             zstn_error *error);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* ZSTN_H */
