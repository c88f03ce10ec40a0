// SPDX-License-Identifier: Apache-2.0
//
// A manifest (format v7) as typed data: what a parse makes of the bytes and what a verification
// then proves of it. Everything lives in the manifest's own arena and is read-only to other rooms.
//
// Maps are arrays in byte-wise order of their names; that order is the same on every rank and is
// the index space of everything below: vars[i] is var i wherever a dense array of var values is
// used. A reference keeps the name it was written with and, after verification, the index it stands
// for. `order` is the place of a thing in the document: the byte that it begins at.
#ifndef KERN_MANIFEST_MANIFEST_H
#define KERN_MANIFEST_MANIFEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/diag.h"
#include "base/names.h"
#include "base/sha256.h"

// The most bytes and the deepest nesting that a manifest may have (contract, V-JSON).
#define KERN_MANIFEST_BYTES_MAX (256ull << 20)
#define KERN_MANIFEST_DEPTH_MAX 64

enum kern_dtype {
    KERN_BF16,
    KERN_F16,
    KERN_F32,
    KERN_FP8E4M3,
    KERN_FP8E8M0,
    KERN_I8,
    KERN_I32,
    KERN_U32,
    KERN_I64,
    KERN_U64,
    KERN_U8,
};

enum kern_buffer_kind {
    KERN_INPUT,
    KERN_OUTPUT,
    KERN_INOUT,
    KERN_WEIGHT,
    KERN_SOURCE,
    KERN_WORKSPACE,
    KERN_CARRY,
    KERN_PEER,
};

enum kern_fill {
    KERN_FILL_NONE,
    KERN_FILL_TOKEN,
    KERN_FILL_POSITION,
    KERN_FILL_VALID,
    KERN_FILL_SLOT,
    KERN_FILL_SEQ_LEN,
    KERN_FILL_CU_SEQLENS,
    KERN_FILL_BLOCKS,
    KERN_FILL_TEMPERATURE,
    KERN_FILL_TOP_K,
    KERN_FILL_TOP_P,
    KERN_FILL_MIN_P,
    KERN_FILL_SEED,
    KERN_FILL_TOKENS,
    KERN_FILL_COUNT,
    KERN_FILL_ERROR,
};

enum kern_axis { KERN_AXIS_NONE, KERN_AXIS_ROWS, KERN_AXIS_GROUPS, KERN_AXIS_RANKS };
enum kern_placement { KERN_ON_DEVICE, KERN_ON_HOST };
enum kern_direction { KERN_IN, KERN_OUT, KERN_BOTH }; // BOTH is written "inout"

// A name and, once resolved, the index in its map. An absent optional reference has name NULL.
struct kern_ref {
    const char *name;
    uint32_t index; // KERN_NONE until resolved
};

// A shape's extent: var.name NULL means the constant [extent].
struct kern_dim {
    struct kern_ref var;
    uint64_t extent;
};

enum kern_expr_kind {
    KERN_EXPR_CONST,    // value
    KERN_EXPR_VAR,      // var
    KERN_EXPR_CEIL_DIV, // ceil(a / value)
    KERN_EXPR_MUL,      // a * value
    KERN_EXPR_ADD,      // a + b
    KERN_EXPR_CLAMP,    // min(max(a - value, 0), length)
};

struct kern_expr {
    enum kern_expr_kind kind;
    struct kern_ref var;
    uint64_t value;
    uint64_t length;
    const struct kern_expr *a;
    const struct kern_expr *b;
};

struct kern_var {
    const char *name;
    uint64_t max;
    enum kern_axis axis;
    uint64_t order;
};

enum kern_bound_kind { KERN_BOUND_NONE, KERN_BOUND_INT, KERN_BOUND_FLOAT, KERN_BOUND_EXPR };

struct kern_bound {
    enum kern_bound_kind kind;
    int64_t integer;
    double real;
    const struct kern_expr *expr;
};

// What a reference names that may name a buffer or a state.
enum kern_target { KERN_TARGET_NONE, KERN_TARGET_BUFFER, KERN_TARGET_STATE };

struct kern_domain {
    struct kern_bound min;
    struct kern_bound max;
    struct kern_ref index_into;
    enum kern_target target; // of index_into, set by verification
    uint64_t stride;
    bool monotone;
    uint64_t order;
};

// A tensor name, or one per member of a group.
struct kern_tensor_source {
    const char *name;         // fixed: the name; ranked: NULL
    struct kern_ref group;    // ranked: the group
    const char *const *names; // ranked: [count] names in member order
    size_t count;
};

// A half-open range, or one per member of a group; [count] is 1 for a fixed range.
struct kern_ranges {
    struct kern_ref group; // name NULL: fixed
    const uint64_t (*ranges)[2];
    size_t count;
};

struct kern_segment {
    struct kern_tensor_source tensor;
    const struct kern_ranges *rows;              // NULL: every row
    const struct kern_ranges *cols;              // NULL: every column
    const struct kern_tensor_source *interleave; // the other tensor, or NULL
    uint64_t interleave_rows;
    uint64_t order;
};

struct kern_buffer {
    const char *name;
    enum kern_dtype dtype;
    enum kern_buffer_kind kind;
    const struct kern_dim *shape;
    size_t rank; // extents in shape
    enum kern_fill fill;
    enum kern_placement placement;
    bool exported;
    const struct kern_domain *domain; // NULL: none declared
    const struct kern_segment *bind;
    size_t n_bind;
    struct kern_ref of; // peer buffers
    enum kern_target of_target;
    struct kern_ref group; // peer buffers
    uint64_t bytes;        // at var maxima, set by verification
    uint64_t order;
};

// The layout of a host state: element strides, outermost first; shape[0] may be 0.
struct kern_host_layout {
    enum kern_dtype dtype;
    const uint64_t *shape;
    const uint64_t *strides;
    size_t rank;
    size_t n_strides;
};

enum kern_shard_by { KERN_SHARD_BY_POSITION, KERN_SHARD_BY_HEADS };

struct kern_shard {
    enum kern_shard_by by;
    struct kern_ref group;
    const uint64_t (*segments)[2]; // {rows, width in bytes}
    size_t n_segments;
};

struct kern_state {
    const char *name;
    uint64_t bytes_per_token;
    uint64_t bytes_per_seq;
    uint64_t bytes;
    const struct kern_host_layout *host; // NULL: the runtime owns the memory
    const struct kern_shard *shard;      // NULL: not sharded
    uint64_t order;
};

struct kern_module {
    const char *name;
    const char *source; // a label: never followed, never fetched
    const char *sha256; // as written
    uint8_t digest[KERN_SHA256_BYTES];
    uint64_t order;
};

enum kern_param_kind {
    KERN_PARAM_I32,
    KERN_PARAM_I64,
    KERN_PARAM_F32,
    KERN_PARAM_U8,
    KERN_PARAM_BYTES,
    KERN_PARAM_BUFFER,
    KERN_PARAM_STATE,
};

struct kern_param {
    enum kern_param_kind kind;
    enum kern_direction direction; // buffers and states
    enum kern_dtype dtype;         // buffers
    uint32_t bytes;                // KERN_PARAM_BYTES
};

struct kern_scratch {
    const char *name;
    enum kern_dtype dtype;
    const struct kern_dim *shape;
    size_t rank;
    uint64_t bytes; // at var maxima, set by verification
    uint64_t order;
};

enum kern_tma_dtype {
    KERN_TMA_U8,
    KERN_TMA_U16,
    KERN_TMA_U32,
    KERN_TMA_I32,
    KERN_TMA_U64,
    KERN_TMA_I64,
    KERN_TMA_F16,
    KERN_TMA_BF16,
    KERN_TMA_F32,
    KERN_TMA_TF32,
    KERN_TMA_U4,
    KERN_TMA_U4PACKED,
};

struct kern_tensormap {
    uint64_t param; // index of an interface param
    enum kern_tma_dtype dtype;
    const uint64_t *dims; // innermost first, in elements; the outermost may be 0: span the buffer
    size_t n_dims;
    const uint64_t *strides; // bytes, of dims[1..]
    size_t n_strides;
    const uint32_t *box;
    size_t n_box;
    uint32_t swizzle;
    uint32_t l2_promotion;
    bool oob_nan;
    bool wrap;
};

// Where a value comes from: call arguments, launch arguments and pack fields are all of these, each
// of the kinds that its place in the manifest allows.
enum kern_value_kind {
    KERN_VALUE_BUFFER,    // call: ref, offset
    KERN_VALUE_STATE,     // call: ref, offset
    KERN_VALUE_PARAM,     // launch, field: param
    KERN_VALUE_SCRATCH,   // launch, field: ref
    KERN_VALUE_VAR,       // call, field: ref
    KERN_VALUE_EXPR,      // call, field: expr
    KERN_VALUE_I32,       // integer
    KERN_VALUE_I64,       // integer
    KERN_VALUE_F32,       // real
    KERN_VALUE_U8,        // integer
    KERN_VALUE_RANK,      // ref to a group
    KERN_VALUE_PACK,      // launch: pack
    KERN_VALUE_TENSORMAP, // field: tensormap
};

struct kern_value {
    enum kern_value_kind kind;
    struct kern_ref ref;
    union {
        uint64_t offset; // bytes
        uint64_t param;
        int64_t integer;
        float real;
        const struct kern_expr *expr;
        const struct kern_pack *pack;
        const struct kern_tensormap *tensormap;
    };
    uint64_t order;
};

struct kern_field {
    struct kern_value value;
    uint32_t at;
    uint32_t width; // bytes; as declared, or after verification the source's own width
    bool has_width; // it was declared
};

struct kern_pack {
    uint32_t size;
    const struct kern_field *fields;
    size_t n_fields;
};

struct kern_when {
    struct kern_ref var;
    uint64_t min; // 0: open
    uint64_t max; // UINT64_MAX: open
    bool has_min;
    bool has_max;
};

struct kern_gemm_algo {
    int32_t id;
    uint32_t tile;
    uint32_t stages;
    int32_t split_k;
    uint32_t reduction;
    uint32_t swizzle;
    uint32_t custom;
    uint16_t inner_shape;
    uint16_t cluster_shape;
};

enum kern_builtin {
    KERN_BUILTIN_NONE, // a kernel launch
    KERN_BUILTIN_CUBLASLT_BF16_TN,
    KERN_BUILTIN_CUBLASLT_BF16_TN_ACC,
    KERN_BUILTIN_CUBLAS_BF16_TN_F32,
    KERN_BUILTIN_CUBLASLT_FP8_TN,
    KERN_BUILTIN_CUBLASLT_FP8_TN_F32,
    KERN_BUILTIN_NCCL_ALLREDUCE,
    KERN_BUILTIN_NCCL_ALLGATHER,
    KERN_BUILTIN_NCCL_REDUCESCATTER,
};

struct kern_launch {
    bool is_extern;                // a built-in: only entry, params, args, when and algo apply
    enum kern_builtin builtin;     // resolved from the entry
    enum kern_dtype builtin_dtype; // element type of an nccl collective
    struct kern_ref module;
    const char *entry;
    // Its own, or (params_given, args_given false) the op's params and those forwarded in order.
    const struct kern_param *params;
    const struct kern_value *args;
    size_t n_params;
    size_t n_args;
    bool params_given;
    bool args_given;
    uint32_t block[3];
    const struct kern_expr *grid[3];
    const struct kern_expr *shared_mem; // NULL: none
    uint32_t cluster[3];
    bool has_cluster;
    bool pdl;
    const struct kern_when *when;      // NULL: always
    const struct kern_gemm_algo *algo; // NULL: the library's heuristic
    uint64_t order;
};

struct kern_op {
    const char *name;
    const struct kern_param *params;
    size_t n_params;
    const struct kern_scratch *scratch; // in byte-wise order of names
    size_t n_scratch;
    const struct kern_launch *launches;
    size_t n_launches;
    uint64_t order;
};

struct kern_call {
    const char *label; // NULL: none
    struct kern_ref op;
    const struct kern_value *args;
    size_t n_args;
    uint64_t order;
};

struct kern_batch {
    uint64_t groups;
    struct kern_dim rows;
    struct kern_ref context; // name NULL: none
};

struct kern_program {
    const char *name;
    const struct kern_call *calls;
    size_t n_calls;
    const struct kern_batch *batch; // NULL: only a harness runs it
    bool once;
    bool derive;
    bool graph;
    uint64_t order;
};

struct kern_group {
    const char *name;
    uint64_t size;
    uint64_t order;
};

struct kern_cut {
    const char *id;
    uint64_t stage;
    uint64_t stages;
    uint64_t order;
};

struct kern_manifest {
    const char *model;
    const char *tool_parser; // chat.tool_parser, or NULL
    bool has_chat;
    bool has_topology;
    const struct kern_cut *cut; // NULL: not a stage

    const struct kern_var *vars;
    const struct kern_group *groups;
    const struct kern_state *states;
    const struct kern_buffer *buffers;
    const struct kern_module *modules;
    const struct kern_op *ops;
    const struct kern_program *programs;
    uint32_t n_vars, n_groups, n_states, n_buffers, n_modules, n_ops, n_programs;

    // Index of each name in the arrays above.
    struct kern_names var_names, group_names, state_names, buffer_names, module_names, op_names,
        program_names;

    // sha256 of the bytes that it was parsed from; of a stage from kern_manifest_cut, the whole's.
    uint8_t digest[KERN_SHA256_BYTES];
    bool verified;
    struct kern_arena arena;
};

// Parses [length] bytes of JSON text (a NUL follows them) into a manifest, or returns NULL with
// every error of the shape in [diag]: rules V-JSON, V-DUP, V-KEY, V-NUM, V-CONST, V-VERSION, V-TYPE
// (anything else that is not of the schema's shape) and V-NAME (an empty name in a map, or one with
// control characters). [name] says in messages where the bytes came from.
struct kern_manifest *kern_manifest_parse(const char *text, size_t length, const char *name,
                                          struct kern_diag *diag);

// Resolves every reference and checks the rules of the contract, all of them; false with every
// violation in [diag], in document order. Warnings may be added in either case.
bool kern_manifest_verify(struct kern_manifest *manifest, struct kern_diag *diag);

void kern_manifest_destroy(struct kern_manifest *manifest);

// Bytes of an element, 1 to 8, and the names that the schema uses.
size_t kern_dtype_bytes(enum kern_dtype dtype);
bool kern_dtype_is_float(enum kern_dtype dtype);
const char *kern_dtype_name(enum kern_dtype dtype);
const char *kern_buffer_kind_name(enum kern_buffer_kind kind);
const char *kern_fill_name(enum kern_fill fill);

// A param as the manifest writes it, "inout buffer<bf16>"; [text] has room for 32 bytes.
const char *kern_param_text(const struct kern_param *param, char text[32]);

// Bytes of a param in a kernel's parameter block: pointers and i64 8, i32 and f32 4, u8 1, bytes<n>
// n.
uint32_t kern_param_bytes(const struct kern_param *param);

// The value of [expr] for var values [vars] (dense, by var index); false on overflow.
bool kern_expr_value(const struct kern_expr *expr, const uint64_t *vars, uint64_t *value);

// Narrows *[low] to *[high], values of the var of [when], to those with which a launch runs; false,
// and they stay as they are, if it runs with none of them.
bool kern_when_narrow(const struct kern_when *when, uint64_t *low, uint64_t *high);

// The bytes of a shape for var values [vars]; false on overflow.
bool kern_shape_bytes(enum kern_dtype dtype, const struct kern_dim *shape, size_t rank,
                      const uint64_t *vars, uint64_t *bytes);

// Marks in [used] (a flag per var) the vars that [expr] reads.
void kern_expr_vars(const struct kern_expr *expr, bool *used);

#endif
