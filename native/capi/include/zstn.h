/*
 * libzstn: reads AI model checkpoints that zstn has packed, packs checkpoints and
 * restores them. docs/c.md is a guide with examples.
 *
 * Generated from native/capi/src by `cargo xtask capi --write`.
 *
 * - Functions that can fail return ZSTN_OK or a negative ZSTN_ERROR_..., and write
 *   the reason to the caller's zstn_error, whose pointer may be NULL. After an error,
 *   returned handles are NULL.
 * - Free every handle once, with the function for its type. Freeing NULL does
 *   nothing. Memory that a handle owns is valid until the handle is freed.
 * - Every pointer argument has to stay valid until the function returns; no other
 *   thread may change the memory meanwhile. Afterwards the library does not use it,
 *   unless the function's documentation states otherwise.
 * - Strings are UTF-8 and NUL-terminated. Lengths are in bytes.
 * - Initialise structures that begin with struct_size with ZSTN_INIT, then set
 *   struct_size to their size. From it a library of another version knows which
 *   fields the structure has.
 * - Engines, models and readers may be used by any number of threads at the same
 *   time. Free a handle only when no thread uses it.
 * - The library never prints anything.
 */

#ifndef ZSTN_H
#define ZSTN_H

#include <stddef.h>
#include <stdint.h>
/* The version of this header as 0x00MMmmpp; compare it with zstn_version_number(). */
#define ZSTN_VERSION_NUMBER 0x00000100

/* Initialises a structure with zeros: zstn_input input = ZSTN_INIT; */
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
 * The file is damaged, truncated or forged: its bytes break the rules of their format.
 */
#define ZSTN_ERROR_FORMAT -1

/**
 * An operation of the operating system, or a callback, failed.
 */
#define ZSTN_ERROR_IO -2

/**
 * A server did not answer with the requested bytes.
 */
#define ZSTN_ERROR_HTTP -3

/**
 * Two files that should be equal differ.
 */
#define ZSTN_ERROR_DIFFERS -4

/**
 * An argument is invalid.
 */
#define ZSTN_ERROR_USAGE -5

/**
 * A delta cannot be read without its base.
 */
#define ZSTN_ERROR_NEEDS_BASE -6

/**
 * A progress callback stopped the work.
 */
#define ZSTN_ERROR_CANCELLED -7

/**
 * A length exceeds a limit of the library, or does not fit in memory.
 */
#define ZSTN_ERROR_MEMORY -8

/**
 * A defect of the library. Do nothing with the handles of the call but free them.
 */
#define ZSTN_ERROR_PANIC -9

/**
 * The file is valid, but this version cannot handle its contents.
 */
#define ZSTN_ERROR_UNSUPPORTED -10

/**
 * The model has no tensor with this name.
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
 * A delta was made from another base than the one that was passed.
 */
#define ZSTN_ERROR_WRONG_BASE -14

/**
 * A GPU or its driver is missing, too old, or failed.
 */
#define ZSTN_ERROR_GPU -15

/**
 * The work itself. Bytes are counted in the original data.
 */
#define ZSTN_PHASE_WORK 0

/**
 * An input is being fetched. A total of 0 means that its length is unknown.
 */
#define ZSTN_PHASE_FETCH 1

/**
 * A packed base is being restored before the work begins.
 */
#define ZSTN_PHASE_RESTORE_BASE 2

/**
 * The value of `alias_of` in a tensor that is not an alias.
 */
#define ZSTN_NONE 18446744073709551615ull

/**
 * Passed as `row_end`: all rows up to the last. A plan for rows 0 to `ZSTN_ALL_ROWS`
 * covers the whole tensor, whatever its shape.
 */
#define ZSTN_ALL_ROWS 18446744073709551615ull

/**
 * Weights stored in a compressed-tensors format are returned dense, if a `config.json`
 * in the same folder describes the format.
 */
#define ZSTN_VIEW_DENSE 0

/**
 * Every tensor is returned exactly as it is stored.
 */
#define ZSTN_VIEW_STORED 1

/**
 * The default balance between time and size.
 */
#define ZSTN_EFFORT_BALANCED 0

/**
 * Takes less time; the output is a little larger.
 */
#define ZSTN_EFFORT_FAST 1

/**
 * Takes several times as long; the output is smaller.
 */
#define ZSTN_EFFORT_MAX 2

/**
 * A pool of threads that decode and encode. Calls without an engine share one that has
 * a thread for each processor; it is created on first use and never destroyed. Any
 * number of threads may use one engine at the same time.
 */
typedef struct zstn_engine zstn_engine;

/**
 * The list of a model's tensors, with their names, element types, shapes and places in
 * the files. It never changes, and any number of threads may use it at the same time.
 */
typedef struct zstn_model zstn_model;

/**
 * A file that is being opened. Only one thread may use it at a time.
 */
typedef struct zstn_opening zstn_opening;

/**
 * The ranges to fetch for a tensor or some of its rows, and the steps to decode them.
 * Any number of threads may use a plan at the same time, but only one may call
 * `zstn_plan_supply`, and no other thread may use the plan meanwhile. A plan remains
 * usable after its model has been freed.
 */
typedef struct zstn_plan zstn_plan;

/**
 * An opened model. Any number of threads may read from it at the same time.
 */
typedef struct zstn_reader zstn_reader;

/**
 * The result of a function: `ZSTN_OK`, or a negative `ZSTN_ERROR_...`. Later versions
 * may add error codes.
 */
typedef int32_t zstn_status;

/**
 * The reason of an error, in the caller's memory. A function that fails overwrites it;
 * a function that succeeds does not change it.
 */
typedef struct {
    /**
     * The status that the function returned.
     */
    int32_t code;
    /**
     * 1 if the same call may succeed later, because the network or a server failed;
     * else 0. Requests have already been retried.
     */
    int32_t is_retryable;
    /**
     * The problem, where it occurred, and what to do: NUL-terminated UTF-8. A longer
     * message is truncated.
     */
    char message[1016];
} zstn_error;

/**
 * The index entry of a tensor. The caller sets `struct_size`. Strings and shape belong
 * to the model and stay valid until it is freed.
 */
typedef struct {
    /**
     * `sizeof(zstn_tensor)`.
     */
    size_t struct_size;
    /**
     * Name of the tensor, NUL-terminated.
     */
    const char *name;
    /**
     * Length of the name in bytes, needed because a forged name may contain a NUL.
     */
    size_t name_len;
    /**
     * Element type in the spelling of safetensors, such as "BF16".
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
     * Length in bytes of the decoded tensor, which is little-endian and row-major.
     */
    uint64_t len;
    /**
     * Number of bytes that the tensor takes in its file; its share, if it is only a part
     * of an entry of a packed file.
     */
    uint64_t stored_len;
    /**
     * Number of another tensor with the same bytes, or `ZSTN_NONE`. In files of other
     * programs, that tensor may come later in the list.
     */
    uint64_t alias_of;
    /**
     * Number of bits per element.
     */
    int32_t dtype_bits;
    /**
     * 1 if the tensor can only be read together with a base.
     */
    int32_t needs_base;
} zstn_tensor;

/**
 * An entry of a model's metadata. The strings belong to the model.
 */
typedef struct {
    /**
     * Key, NUL-terminated.
     */
    const char *key;
    /**
     * Length of the key in bytes, without the NUL.
     */
    size_t key_len;
    /**
     * Value, NUL-terminated.
     */
    const char *value;
    /**
     * Length of the value in bytes, without the NUL.
     */
    size_t value_len;
} zstn_metadata;

/**
 * A range of bytes to fetch from a file.
 */
typedef struct {
    /**
     * Offset of the first byte from the start of the file.
     */
    uint64_t offset;
    /**
     * Length of the range in bytes.
     */
    uint64_t len;
    /**
     * Number of the file in a model that has several; 0 for the first.
     */
    uint64_t file;
} zstn_range;

/**
 * Bytes in the caller's memory.
 */
typedef struct {
    /**
     * Pointer to the first byte; may be NULL if `len` is 0.
     */
    const void *data;
    /**
     * Number of bytes.
     */
    size_t len;
} zstn_bytes;

/**
 * Options for opening a model. A field that is 0 or NULL selects its default.
 */
typedef struct {
    /**
     * `sizeof(zstn_open_options)`.
     */
    size_t struct_size;
    /**
     * The threads that decode the tensors; NULL for the shared engine.
     */
    const zstn_engine *engine;
    /**
     * The base of a delta, opened with `ZSTN_VIEW_STORED`; NULL for none. It may be
     * freed after the call.
     */
    const zstn_reader *base;
    /**
     * Token sent to the server in the address, and to no other server; NULL for none,
     * or for the token in `$HF_TOKEN` with an `hf://` address.
     */
    const char *token;
    /**
     * Capacity in bytes of the cache of decoded tensors for `zstn_unpacked_read_at`; 0
     * for 256 MiB.
     */
    uint64_t cache_len;
    /**
     * `ZSTN_VIEW_DENSE` or `ZSTN_VIEW_STORED`.
     */
    int32_t view;
    /**
     * Must be 0.
     */
    int32_t reserved;
    /**
     * Length in bytes of the longest file that is downloaded whole from a server that
     * ignores range requests; 0 for 64 MiB, 1 to refuse such servers.
     */
    uint64_t max_full_download_len;
    /**
     * Only for a merged model, and instead of `base`: the checkpoints that it was packed
     * against, in the same order. Open each with `ZSTN_VIEW_STORED`, and a delta also with
     * its own bases. They may be freed after the call.
     */
    const zstn_reader *const *bases;
    /**
     * Number of elements in `bases`; 0 for none.
     */
    size_t base_count;
} zstn_open_options;

/**
 * A file that callbacks read. Its bytes must not change while it is open.
 *
 * The callbacks are called from any thread, several at a time. A callback that waits
 * delays only the call that needs its bytes. No C++ exception and no `longjmp` may
 * leave a callback.
 */
typedef struct {
    /**
     * `sizeof(zstn_io)`.
     */
    size_t struct_size;
    /**
     * Passed to the callbacks unchanged.
     */
    void *ctx;
    /**
     * Reads up to `len` bytes at `offset` into `buffer` and returns the number of
     * bytes read. It may return fewer than `len`; 0 means the end of the file. A
     * negative result is an error; the error message contains its number.
     */
    int64_t (*read_at)(void *ctx, uint64_t offset, void *buffer, size_t len);
    /**
     * Called once, from any thread, when the library no longer needs `ctx`; may be
     * NULL. It is called even if the function that received this structure fails,
     * unless this structure is itself refused (wrong size, or no `read_at`).
     */
    void (*release)(void *ctx);
    /**
     * Name of the file in error messages; it is copied and may be NULL.
     */
    const char *name;
} zstn_io;

/**
 * The selected indices of one axis.
 */
typedef struct {
    /**
     * The first index.
     */
    uint64_t begin;
    /**
     * The index to stop before; `ZSTN_ALL_ROWS` for all indices up to the last.
     */
    uint64_t end;
} zstn_axis;

/**
 * A tensor to read, and the buffer for it.
 */
typedef struct {
    /**
     * Number of the tensor.
     */
    size_t tensor;
    /**
     * Memory that receives the tensor.
     */
    void *out;
    /**
     * Capacity of `out` in bytes.
     */
    size_t capacity;
} zstn_target;

/**
 * Receives the number of bytes done and the total. It is called for the last time
 * right before the output appears. A result other than 0 stops the work with
 * `ZSTN_ERROR_CANCELLED`, and no output appears. It is called from any thread, but
 * never by two at a time. It must not call the library with the engine of the work (or
 * with NULL, if the work uses the shared engine): such a call may wait forever.
 */
typedef int32_t (*zstn_progress)(void *ctx,
                                 int32_t phase,
                                 uint64_t done,
                                 uint64_t total);

/**
 * The safetensors file that a model is read as. The caller sets `struct_size`.
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
     * 1 if this is, byte for byte, the file that was packed; 0 if the library made its
     * header.
     */
    int32_t is_original;
    /**
     * 1 if `sha256` is set.
     */
    int32_t has_sha256;
    /**
     * SHA-256 of the file; model hubs and git-lfs identify the file by it.
     */
    uint8_t sha256[32];
} zstn_unpacked;

/**
 * A tensor to read, and the memory of a GPU for it.
 */
typedef struct {
    /**
     * Number of the tensor.
     */
    size_t tensor;
    /**
     * Address of the memory, a `CUdeviceptr`. At a multiple of 16, tensors are decoded
     * faster.
     */
    uint64_t address;
    /**
     * Capacity of the memory in bytes.
     */
    uint64_t capacity;
} zstn_gpu_target;

/**
 * The checkpoint to work on. Set exactly one of `path`, `url` and `io`.
 */
typedef struct {
    /**
     * `sizeof(zstn_input)`.
     */
    size_t struct_size;
    /**
     * Path of a file, of the index of a checkpoint that has several files, or of a
     * folder that contains one checkpoint.
     */
    const char *path;
    /**
     * Address of a file or an index: `https://...`, `hf://OWNER/NAME/FILE`.
     */
    const char *url;
    /**
     * Callbacks that read the bytes of a file.
     */
    const zstn_io *io;
    /**
     * Length in bytes of the file that `io` reads.
     */
    uint64_t io_len;
} zstn_input;

/**
 * An output that callbacks receive in order. Bytes once written are never revised.
 * After an error, the bytes received so far are an incomplete file; discard them. The
 * callbacks may be called from any thread, but one at a time.
 */
typedef struct {
    /**
     * `sizeof(zstn_writer)`.
     */
    size_t struct_size;
    /**
     * Passed to the callbacks unchanged.
     */
    void *ctx;
    /**
     * Writes the next `len` bytes, all of them. A result other than 0 is an error; the
     * error message contains its number.
     */
    int32_t (*write)(void *ctx, const void *data, size_t len);
} zstn_writer;

/**
 * The destination of an output. Set exactly one of `path`, `url` and `writer`. A file
 * or an object appears only when it is complete.
 */
typedef struct {
    /**
     * `sizeof(zstn_output)`.
     */
    size_t struct_size;
    /**
     * Path of a file, or of a folder for a checkpoint that has several files.
     */
    const char *path;
    /**
     * Address to write to.
     */
    const char *url;
    /**
     * Callbacks that receive the bytes of a file.
     */
    const zstn_writer *writer;
} zstn_output;

/**
 * Options for packing, restoring or verifying a whole checkpoint. A field that is 0 or
 * NULL selects its default.
 */
typedef struct {
    /**
     * `sizeof(zstn_work_options)`.
     */
    size_t struct_size;
    /**
     * The threads that do the work; NULL for the shared engine.
     */
    const zstn_engine *engine;
    /**
     * The base of a delta, followed by the base of that base if it is a delta too, and
     * so on; or the checkpoints that a model was merged from, each with its own bases
     * after it.
     */
    const zstn_input *const *bases;
    /**
     * Number of elements in `bases`; 0 for none.
     */
    size_t base_count;
    /**
     * Token sent to the server in the input's address, and to no other server; NULL
     * for none.
     */
    const char *token;
    /**
     * Callback that receives the progress and can stop the work; NULL for none.
     */
    zstn_progress progress;
    /**
     * Passed to `progress`.
     */
    void *progress_ctx;
    /**
     * For packing: the 32 bytes of the SHA-256 of the input, which must be a single
     * file; NULL to have it computed. The digest is recorded without being checked;
     * `zstn_unpack` and `zstn_verify` compare it and fail if it is wrong. See `confirm`.
     */
    const uint8_t *sha256;
    /**
     * Approximate limit on the memory used, in bytes; 0 for the default.
     */
    uint64_t memory;
    /**
     * 1 replaces an existing output; 0 fails with `ZSTN_ERROR_EXISTS`.
     */
    int32_t overwrite;
    /**
     * For packing: one of `ZSTN_EFFORT_...`.
     */
    int32_t effort;
    /**
     * For packing: 1 omits the checksums.
     */
    int32_t no_checksums;
    /**
     * For packing: 1 accepts a file that was cut short; 0 refuses it.
     */
    int32_t allow_truncated;
    /**
     * For packing: 1 omits the tensor statistics.
     */
    int32_t no_statistics;
    /**
     * For packing: 1 writes extension frames where they are smaller. zstn 0.1 and later
     * can read a file that contains one; z4ai cannot.
     */
    int32_t extended;
    /**
     * For verifying: 1 records in a packed file at a path that its SHA-256, which
     * `zstn_pack` was given, has been compared. The file is then replaced by a copy.
     */
    int32_t confirm;
    /**
     * For verifying: 1 leaves out the digest of the restored file as a whole, usually its
     * SHA-256. All tensors are still compared with their own digests.
     */
    int32_t fast;
} zstn_work_options;

/**
 * The result of packing, restoring or verifying. The caller sets `struct_size`.
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
     * For packing: number of tensors. For verifying: number of frames, records or
     * tensors that were decoded. For unpacking: 0.
     */
    uint64_t tensors;
    /**
     * Total length of the packed files in bytes.
     */
    uint64_t packed_len;
    /**
     * Total length of the original files in bytes.
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
     * For verifying a folder: the number of files that were not checked, because
     * copied files have no checksums.
     */
    uint32_t unchecked_files;
} zstn_report;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/**
 * Returns the version of the library as `0x00MMmmpp`. `ZSTN_VERSION_NUMBER` is the
 * version of the header.
 */
uint32_t zstn_version_number(void);

/**
 * Returns the version of the library as a string, such as "0.1.0".
 */
const char *zstn_version(void);

/**
 * Returns a short name of a status, such as "needs_base"; "unknown" for other values.
 */
const char *zstn_status_name(int32_t status);

/**
 * Creates an engine with `threads` threads; 0 means one for each processor. The
 * largest allowed number is eight for each processor, or 16 if that is more.
 */
zstn_status zstn_engine_new(uint32_t threads,
                            zstn_engine **engine,
                            zstn_error *error);

/**
 * Stores the number of threads of an engine; NULL means the shared engine.
 */
zstn_status zstn_engine_threads(const zstn_engine *engine,
                                uint32_t *threads,
                                zstn_error *error);

/**
 * Frees an engine. Its threads end once the last reader that uses them is freed. Does
 * nothing for NULL.
 */
void zstn_engine_free(zstn_engine *engine);

/**
 * Returns the number of tensors; 0 for NULL.
 */
size_t zstn_model_tensor_count(const zstn_model *model);

/**
 * Fills `tensor` with the index entry of tensor `number`. Tensors are numbered from 0,
 * in the order of the index.
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
 * Returns the number of metadata entries; 0 for NULL.
 */
size_t zstn_model_metadata_count(const zstn_model *model);

/**
 * Fills `entry` with metadata entry `number`. Entries are numbered from 0 and sorted
 * by key.
 */
zstn_status zstn_model_metadata(const zstn_model *model,
                                size_t number,
                                zstn_metadata *entry,
                                zstn_error *error);

/**
 * Returns the name of the model's file format, such as "zstn" or "safetensors". The
 * string belongs to the model. Returns NULL for NULL.
 */
const char *zstn_model_kind(const zstn_model *model);

/**
 * Returns 1 if the model is a delta, which can only be read together with a base, and
 * 0 otherwise or for NULL.
 */
int32_t zstn_model_needs_base(const zstn_model *model);

/**
 * Frees a model returned by `zstn_opening_finish`. Plans made from it remain usable.
 * Does nothing for NULL.
 */
void zstn_model_free(zstn_model *model);

/**
 * Returns the number of bytes that `zstn_opening_new` needs from the start of a file
 * of `file_len` bytes.
 */
uint64_t zstn_head_len(uint64_t file_len);

/**
 * Begins to open a file of `file_len` bytes, in any format that zstn reads. `head`
 * points to its first bytes, at least `zstn_head_len(file_len)` of them; they are
 * copied.
 */
zstn_status zstn_opening_new(uint64_t file_len,
                             const void *head,
                             size_t head_len,
                             zstn_opening **opening,
                             zstn_error *error);

/**
 * Lists the ranges that are missing. On entry `*count` is the capacity of `ranges`,
 * which may be NULL to query only the number. On return `*count` is the number of
 * missing ranges, and `ranges` contains as many of them as fit. If it is 0, call
 * `zstn_opening_finish`. The ranges do not overlap and may be fetched at the same
 * time. Once they have been supplied, call this function again; few rounds are needed.
 */
zstn_status zstn_opening_needs(const zstn_opening *opening,
                               zstn_range *ranges,
                               size_t *count,
                               zstn_error *error);

/**
 * Supplies all bytes of a range that `zstn_opening_needs` has listed. They are copied.
 */
zstn_status zstn_opening_supply(zstn_opening *opening,
                                uint64_t offset,
                                const void *bytes,
                                size_t len,
                                zstn_error *error);

/**
 * Returns the model once no bytes are missing. Weights are read as they are stored;
 * `zstn_open_path` also reads a `config.json`. `engine` may be NULL. Unless bytes were
 * missing, the opening cannot be used afterwards, even after an error, and must still
 * be freed.
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
 * Plans to read the rows from `row_begin` up to, but not including, `row_end`. Rows
 * are slices of the outermost dimension; 0 and `ZSTN_ALL_ROWS` select the whole
 * tensor.
 */
zstn_status zstn_plan_tensor(const zstn_model *model,
                             const char *name,
                             uint64_t row_begin,
                             uint64_t row_end,
                             zstn_plan **plan,
                             zstn_error *error);

/**
 * Lists the range that the plan itself still needs: some rows need a block table that
 * was not read with the index. It takes the same arguments as `zstn_opening_needs`.
 * The plan is ready when the number of ranges is 0.
 */
zstn_status zstn_plan_needs(const zstn_plan *plan,
                            zstn_range *ranges,
                            size_t *count,
                            zstn_error *error);

/**
 * Supplies the bytes of a range that `zstn_plan_needs` has listed.
 */
zstn_status zstn_plan_supply(zstn_plan *plan,
                             uint64_t offset,
                             const void *bytes,
                             size_t len,
                             zstn_error *error);

/**
 * Lists the ranges to pass to `zstn_plan_decode`, in this order. It takes the same
 * arguments as `zstn_opening_needs`.
 */
zstn_status zstn_plan_parts(const zstn_plan *plan,
                            zstn_range *ranges,
                            size_t *count,
                            zstn_error *error);

/**
 * Returns the length in bytes of the decoded tensor or rows; 0 for NULL.
 */
uint64_t zstn_plan_len(const zstn_plan *plan);

/**
 * Decodes the tensor or rows into `out`, whose capacity in bytes must be at least
 * `zstn_plan_len`. `parts` are the bytes of the ranges of `zstn_plan_parts`, in the
 * same order. Bytes that the file has checksums for are verified. `engine` may be
 * NULL. After an error, the content of `out` is undefined.
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
 * Opens a model in any format: a file, the index of a checkpoint that has several
 * files, or a folder that contains one checkpoint. `options` may be NULL. The path
 * consists of arbitrary bytes on Unix, and is UTF-8 on Windows.
 */
zstn_status zstn_open_path(const char *path,
                           const zstn_open_options *options,
                           zstn_reader **reader,
                           zstn_error *error);

/**
 * Opens a model at an address: `https://...`, or `hf://OWNER/NAME/FILE` for a file of
 * a model hub. Only the ranges that are read are fetched. `options` may be NULL.
 */
zstn_status zstn_open_url(const char *url,
                          const zstn_open_options *options,
                          zstn_reader **reader,
                          zstn_error *error);

/**
 * Opens a model that is a single file of `len` bytes, read by callbacks. `io` is
 * copied. `options` may be NULL.
 */
zstn_status zstn_open_io(const zstn_io *io,
                         uint64_t len,
                         const zstn_open_options *options,
                         zstn_reader **reader,
                         zstn_error *error);

/**
 * Returns the list of the reader's tensors, or NULL for NULL. It belongs to the
 * reader: do not free it.
 */
const zstn_model *zstn_reader_model(const zstn_reader *reader);

/**
 * Reads a tensor into `out`, whose capacity in bytes must be at least the tensor's
 * length. Bytes that the file has checksums for are verified. After an error, the
 * content of `out` is undefined.
 */
zstn_status zstn_read(const zstn_reader *reader,
                      const char *name,
                      void *out,
                      size_t capacity,
                      zstn_error *error);

/**
 * Reads the rows of a tensor from `row_begin` up to, but not including, `row_end`.
 * Rows are slices of the outermost dimension; each is as long as the tensor divided by
 * `shape[0]`. If the tensor is stored in blocks, only the blocks that contain these
 * rows are read. Otherwise the same as `zstn_read`.
 */
zstn_status zstn_read_rows(const zstn_reader *reader,
                           const char *name,
                           uint64_t row_begin,
                           uint64_t row_end,
                           void *out,
                           size_t capacity,
                           zstn_error *error);

/**
 * Reads a part of a tensor: the elements at the selected indices of every axis, in
 * row-major order. `axes` describes the first `axis_count` axes, outermost first; the
 * others are selected whole. Only the blocks that contain the part are read. Otherwise
 * the same as `zstn_read`.
 */
zstn_status zstn_read_select(const zstn_reader *reader,
                             const char *name,
                             const zstn_axis *axes,
                             size_t axis_count,
                             void *out,
                             size_t capacity,
                             zstn_error *error);

/**
 * Reads several tensors at once: many are decoded at a time, and from a server or
 * callbacks the next ones are fetched meanwhile. `progress` may be NULL; `ctx` is
 * passed to it. The buffers must not overlap; after an error, their content is
 * undefined.
 */
zstn_status zstn_read_many(const zstn_reader *reader,
                           const zstn_target *targets,
                           size_t target_count,
                           zstn_progress progress,
                           void *ctx,
                           zstn_error *error);

/**
 * Frees a reader and closes its files. Does nothing for NULL.
 */
void zstn_reader_free(zstn_reader *reader);

/**
 * Describes the safetensors file that the model is read as; for a packed file, this is
 * the file that was packed.
 */
zstn_status zstn_unpacked_describe(const zstn_reader *reader,
                                   zstn_unpacked *unpacked,
                                   zstn_error *error);

/**
 * Reads `len` bytes at `offset` of that file; the range must lie inside the file. Only
 * the tensors in the range are decoded, and some are cached for the next call. After
 * an error, the content of `out` is undefined.
 */
zstn_status zstn_unpacked_read_at(const zstn_reader *reader,
                                  uint64_t offset,
                                  void *out,
                                  size_t len,
                                  zstn_error *error);

/**
 * Reads several tensors into the memory of an NVIDIA GPU, which decodes most of them
 * itself. `gpu` is its number, which counts from 0, and is used through its primary
 * context, as by CUDA's runtime. The work begins after all present work of `stream`, a
 * `CUstream` of that context, or NULL for the default stream; it is done when the call
 * returns. The memory must not overlap, and nothing else may use it during the call. If
 * there is no driver or no such GPU, or if it fails, the status is `ZSTN_ERROR_GPU`;
 * `zstn_read_many` decodes on the CPU.
 */
zstn_status zstn_read_to_gpu(const zstn_reader *reader,
                             uint16_t gpu,
                             void *stream,
                             const zstn_gpu_target *targets,
                             size_t target_count,
                             zstn_error *error);

/**
 * Packs a safetensors checkpoint losslessly. A file becomes a ZSTN container, or a
 * delta if `options` name a base; a folder or an index becomes a folder. `options` and
 * `report` may be NULL. After an error, no output remains.
 */
zstn_status zstn_pack(const zstn_input *input,
                      const zstn_output *output,
                      const zstn_work_options *options,
                      zstn_report *report,
                      zstn_error *error);

/**
 * Restores a checkpoint that `zstn_pack` has packed, byte for byte. The digests
 * recorded in the packed file are checked before the output gets its name. A writer
 * receives every tensor once its digest has been checked, and the last byte of the file
 * once all digests have been; after an error, discard what it has received. It takes the
 * same arguments as `zstn_pack`.
 */
zstn_status zstn_unpack(const zstn_input *input,
                        const zstn_output *output,
                        const zstn_work_options *options,
                        zstn_report *report,
                        zstn_error *error);

/**
 * Decodes a whole checkpoint and compares it with the checksums in its files, and with
 * `original` unless that is NULL. `options` and `report` may be NULL.
 */
zstn_status zstn_verify(const zstn_input *input,
                        const zstn_input *original,
                        const zstn_work_options *options,
                        zstn_report *report,
                        zstn_error *error);

/**
 * Packs the checkpoint at the path `input` to the path `output`; otherwise the same as
 * `zstn_pack`.
 */
zstn_status zstn_pack_path(const char *input,
                           const char *output,
                           const zstn_work_options *options,
                           zstn_report *report,
                           zstn_error *error);

/**
 * Restores the checkpoint at the path `input` to the path `output`; otherwise the same
 * as `zstn_unpack`.
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
