/* The part of the CUDA driver's interface that the shim touches: own declarations, by shape.
 *
 * Handles are opaque pointers and results plain ints, as the shim hands almost all of them on.
 * Layouts that it reads or writes are checked below.
 */
#ifndef DURE_SHIM_DRIVER_H
#define DURE_SHIM_DRIVER_H

#include <stddef.h>
#include <stdint.h>

typedef int cu_result;
typedef int cu_device;
typedef uint64_t cu_pointer;
typedef struct dure_opaque_context *cu_context;
typedef struct dure_opaque_stream *cu_stream;
typedef struct dure_opaque_event *cu_event;
typedef struct dure_opaque_function *cu_function;
typedef struct dure_opaque_graph *cu_graph;
typedef struct dure_opaque_exec *cu_exec;
typedef struct dure_opaque_node *cu_node;
typedef struct dure_opaque_green *cu_green;
typedef struct dure_opaque_desc *cu_desc;
typedef void *cu_array;

enum {
    CU_OK = 0,
    CU_INVALID_VALUE = 1,
    CU_OUT_OF_MEMORY = 2,
    CU_INVALID_CONTEXT = 201,
    CU_INVALID_HANDLE = 400,
    CU_NOT_READY = 600,
    CU_COOPERATIVE_TOO_LARGE = 720,
    CU_NOT_SUPPORTED = 801,
    CU_INVALID_CLUSTER_SIZE = 912,
    CU_INVALID_RESOURCE_CONFIGURATION = 914,
};

/* Stream handles with a meaning of their own; 0 is one of them, by the function's variant. */
#define CU_STREAM_OF_LEGACY ((cu_stream)0x1)
#define CU_STREAM_OF_THREAD ((cu_stream)0x2)
#define CU_STREAM_IS_NON_BLOCKING 1u
#define CU_EVENT_WITHOUT_TIMING 2u
#define CU_CAPTURE_STATUS_NONE 0
#define CU_CAPTURE_MODE_RELAXED 2
#define CU_RESOURCE_SM 1
#define CU_GREEN_WITH_DEFAULT_STREAM 1u
#define CU_SPLIT_IGNORING_CLUSTERS 1u
#define CU_NODE_IS_KERNEL 0
#define CU_NODE_IS_GRAPH 4
#define CU_NODE_IS_CONDITIONAL 13
#define CU_INSTANTIATE_AND_UPLOAD 2ull
#define CU_PROC_PER_THREAD_STREAM 2ull
#define CU_ATTRIBUTE_COOPERATIVE 2

struct cu_launch_attribute {
    int id;
    char pad[4];
    union {
        char bytes[64];
        int number;
        uint64_t align;
    } value;
};

struct cu_launch_config {
    unsigned grid[3];
    unsigned block[3];
    unsigned shared_bytes;
    cu_stream stream;
    struct cu_launch_attribute *attributes;
    unsigned attribute_count;
};

struct cu_kernel_node {
    cu_function function;
    unsigned grid[3];
    unsigned block[3];
    unsigned shared_bytes;
    void **arguments;
    void **extra;
    void *kernel;
    cu_context context;
};

struct cu_instantiate {
    uint64_t flags;
    cu_stream upload;
    cu_node error_node;
    int result;
};

struct cu_resource {
    int type;
    unsigned char inside[92];
    union {
        struct {
            unsigned count;
            unsigned least;
            unsigned aligned;
        } sm;
        unsigned char bytes[48];
        uint64_t align; /* newer drivers end this in a pointer */
    } of;
};

struct cu_allocation {
    int type;
    int handle_types;
    int location_type;
    int location_id;
    void *win32;
    unsigned char flags[8];
};

struct cu_copy_2d {
    size_t source_x, source_y;
    int source_type;
    const void *source_host;
    cu_pointer source_device;
    cu_array source_array;
    size_t source_pitch;
    size_t target_x, target_y;
    int target_type;
    void *target_host;
    cu_pointer target_device;
    cu_array target_array;
    size_t target_pitch;
    size_t width_bytes, height;
};

struct cu_copy_3d {
    size_t source[4];
    int source_type;
    const void *source_host;
    cu_pointer source_device;
    cu_array source_array;
    void *source_reserved;
    size_t source_pitch, source_height;
    size_t target[4];
    int target_type;
    void *target_host;
    cu_pointer target_device;
    cu_array target_array;
    void *target_reserved;
    size_t target_pitch, target_height;
    size_t width_bytes, height, depth;
};

struct cu_array_shape {
    size_t width, height;
    int format;
    unsigned channels;
};

struct cu_array_shape_3d {
    size_t width, height, depth;
    int format;
    unsigned channels;
    unsigned flags;
};

struct cu_uuid {
    unsigned char bytes[16];
};

_Static_assert(sizeof(struct cu_launch_attribute) == 72, "launch attribute");
_Static_assert(offsetof(struct cu_launch_config, stream) == 32, "launch config");
_Static_assert(sizeof(struct cu_launch_config) == 56, "launch config");
_Static_assert(offsetof(struct cu_kernel_node, arguments) == 40, "kernel node");
_Static_assert(sizeof(struct cu_kernel_node) == 72, "kernel node");
_Static_assert(sizeof(struct cu_resource) == 144, "resource");
_Static_assert(sizeof(struct cu_allocation) == 32, "allocation");
_Static_assert(sizeof(struct cu_copy_2d) == 128, "2D copy");
_Static_assert(sizeof(struct cu_copy_3d) == 200, "3D copy");
_Static_assert(sizeof(struct cu_array_shape) == 24, "array");
_Static_assert(sizeof(struct cu_array_shape_3d) == 40, "array");

/* Shapes of functions; several names share one. */
typedef cu_result fn_proc(const char *, void **, int, uint64_t);
typedef cu_result fn_proc_v2(const char *, void **, int, uint64_t, int *);
typedef cu_result fn_launch(cu_function, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                            unsigned, cu_stream, void **, void **);
typedef cu_result fn_launch_cooperative(cu_function, unsigned, unsigned, unsigned, unsigned,
                                        unsigned, unsigned, unsigned, cu_stream, void **);
typedef cu_result fn_launch_ex(const struct cu_launch_config *, cu_function, void **, void **);
typedef cu_result fn_graph_launch(cu_exec, cu_stream);
typedef cu_result fn_stream(cu_stream);
typedef cu_result fn_event(cu_event);
typedef cu_result fn_event_stream(cu_event, cu_stream);
typedef cu_result fn_event_stream_flags(cu_event, cu_stream, unsigned);
typedef cu_result fn_stream_event_flags(cu_stream, cu_event, unsigned);
typedef cu_result fn_host_function(cu_stream, void (*)(void *), void *);
typedef cu_result fn_callback(cu_stream, void (*)(cu_stream, cu_result, void *), void *, unsigned);
typedef cu_result fn_void(void);
typedef cu_result fn_context(cu_context);
typedef cu_result fn_device(cu_device);
typedef cu_result fn_retain(cu_context *, cu_device);
typedef cu_result fn_stream_mode(cu_stream, int);
typedef cu_result fn_capture_to(cu_stream, cu_graph, const cu_node *, const void *, size_t, int);
typedef cu_result fn_stream_graph(cu_stream, cu_graph *);
typedef cu_result fn_instantiate(cu_exec *, cu_graph, cu_node *, char *, size_t);
typedef cu_result fn_instantiate_flags(cu_exec *, cu_graph, uint64_t);
typedef cu_result fn_instantiate_params(cu_exec *, cu_graph, struct cu_instantiate *);
typedef cu_result fn_exec(cu_exec);
typedef cu_result fn_exec_update(cu_exec, cu_graph, cu_node *, int *);
typedef cu_result fn_exec_update_v2(cu_exec, cu_graph, void *);
typedef cu_result fn_exec_node(cu_exec, cu_node, const void *);
typedef cu_result fn_exec_node_context(cu_exec, cu_node, const void *, cu_context);
typedef cu_result fn_exec_node_event(cu_exec, cu_node, cu_event);
typedef cu_result fn_exec_node_number(cu_exec, cu_node, unsigned);
typedef cu_result fn_exec_node_graph(cu_exec, cu_node, cu_graph);
typedef cu_result fn_alloc(cu_pointer *, size_t);
typedef cu_result fn_alloc_pitch(cu_pointer *, size_t *, size_t, size_t, unsigned);
typedef cu_result fn_alloc_flags(cu_pointer *, size_t, unsigned);
typedef cu_result fn_alloc_async(cu_pointer *, size_t, cu_stream);
typedef cu_result fn_alloc_pool(cu_pointer *, size_t, void *, cu_stream);
typedef cu_result fn_create(uint64_t *, size_t, const struct cu_allocation *, uint64_t);
typedef cu_result fn_release(uint64_t);
typedef cu_result fn_map(cu_pointer, size_t, size_t, uint64_t, uint64_t);
typedef cu_result fn_unmap(cu_pointer, size_t);
typedef cu_result fn_retain_memory(uint64_t *, void *);
typedef cu_result fn_free(cu_pointer);
typedef cu_result fn_free_async(cu_pointer, cu_stream);
typedef cu_result fn_sizes(size_t *, size_t *);
typedef cu_result fn_size_device(size_t *, cu_device);
typedef cu_result fn_array(cu_array *, const struct cu_array_shape *);
typedef cu_result fn_array_3d(cu_array *, const struct cu_array_shape_3d *);
typedef cu_result fn_array_free(cu_array);
typedef cu_result fn_copy(cu_pointer, cu_pointer, size_t);
typedef cu_result fn_copy_async(cu_pointer, cu_pointer, size_t, cu_stream);
typedef cu_result fn_copy_in(cu_pointer, const void *, size_t);
typedef cu_result fn_copy_in_async(cu_pointer, const void *, size_t, cu_stream);
typedef cu_result fn_copy_out(void *, cu_pointer, size_t);
typedef cu_result fn_copy_out_async(void *, cu_pointer, size_t, cu_stream);
typedef cu_result fn_copy_2d(const struct cu_copy_2d *);
typedef cu_result fn_copy_2d_async(const struct cu_copy_2d *, cu_stream);
typedef cu_result fn_copy_3d(const struct cu_copy_3d *);
typedef cu_result fn_copy_3d_async(const struct cu_copy_3d *, cu_stream);
typedef cu_result fn_copy_batch(cu_pointer *, cu_pointer *, size_t *, size_t, void *, size_t *,
                                size_t, size_t *, cu_stream);
typedef cu_result fn_copy_batch_v2(cu_pointer *, cu_pointer *, size_t *, size_t, void *, size_t *,
                                   size_t, cu_stream);
typedef cu_result fn_kernel_function(cu_function *, void *);
/* Any function whose arguments all travel in registers; they are handed on as they came. */
typedef cu_result fn_six(uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t);

/* Functions the shim calls and does not hook. */
typedef cu_result fn_get_context(cu_context *);
typedef cu_result fn_get_device(cu_device *);
typedef cu_result fn_uuid(struct cu_uuid *, cu_device);
typedef cu_result fn_host_register(void *, size_t, unsigned);
typedef cu_result fn_host_pointer(cu_pointer *, void *, unsigned);
typedef cu_result fn_event_create(cu_event *, unsigned);
typedef cu_result fn_elapsed(float *, cu_event, cu_event);
typedef cu_result fn_stream_number(cu_stream, int *);
typedef cu_result fn_stream_flags(cu_stream, unsigned *);
typedef cu_result fn_exchange(int *);
typedef cu_result fn_function_name(const char **, cu_function);
typedef cu_result fn_occupancy(int *, cu_function, int, size_t);
typedef cu_result fn_device_resource(cu_device, struct cu_resource *, int);
typedef cu_result fn_split(struct cu_resource *, unsigned *, const struct cu_resource *,
                           struct cu_resource *, unsigned, unsigned);
typedef cu_result fn_describe(cu_desc *, struct cu_resource *, unsigned);
typedef cu_result fn_green_create(cu_green *, cu_desc, cu_device, unsigned);
typedef cu_result fn_green(cu_green);
typedef cu_result fn_green_stream(cu_stream *, cu_green, unsigned, int);
typedef cu_result fn_green_context(cu_context *, cu_green);
typedef cu_result fn_stream_priority(cu_stream, int *);
typedef cu_result fn_graph_clone(cu_graph *, cu_graph);
typedef cu_result fn_graph_nodes(cu_graph, cu_node *, size_t *);
typedef cu_result fn_node_type(cu_node, int *);
typedef cu_result fn_kernel_node_get(cu_node, struct cu_kernel_node *);
typedef cu_result fn_kernel_node_set(cu_node, const struct cu_kernel_node *);
typedef cu_result fn_node_nodes(cu_node, cu_node *, size_t *);
typedef cu_result fn_add_edges(cu_graph, const cu_node *, const cu_node *, size_t);
typedef cu_result fn_node(cu_node);
typedef cu_result fn_node_node(cu_node, cu_node);
typedef cu_result fn_capture_info(cu_stream, int *, uint64_t *, cu_graph *, const cu_node **,
                                  size_t *);
typedef cu_result fn_graph(cu_graph);
typedef cu_result fn_primary_state(cu_device, unsigned *, int *);

#endif
