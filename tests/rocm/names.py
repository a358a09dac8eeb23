# SPDX-License-Identifier: GPL-2.0 OR MIT
"""Names of ioctls, and of clients and sources of interrupts."""

KFD = {
    0x01: "GET_VERSION", 0x02: "CREATE_QUEUE", 0x03: "DESTROY_QUEUE", 0x04: "SET_MEMORY_POLICY",
    0x05: "GET_CLOCK_COUNTERS", 0x06: "GET_PROCESS_APERTURES", 0x07: "UPDATE_QUEUE",
    0x08: "CREATE_EVENT", 0x09: "DESTROY_EVENT", 0x0A: "SET_EVENT", 0x0B: "RESET_EVENT",
    0x0C: "WAIT_EVENTS", 0x11: "SET_SCRATCH_BACKING_VA", 0x12: "GET_TILE_CONFIG",
    0x13: "SET_TRAP_HANDLER", 0x14: "GET_PROCESS_APERTURES_NEW", 0x15: "ACQUIRE_VM",
    0x16: "ALLOC_MEMORY_OF_GPU", 0x17: "FREE_MEMORY_OF_GPU", 0x18: "MAP_MEMORY_TO_GPU",
    0x19: "UNMAP_MEMORY_FROM_GPU", 0x1A: "SET_CU_MASK", 0x1C: "GET_DMABUF_INFO",
    0x1D: "IMPORT_DMABUF", 0x1E: "ALLOC_QUEUE_GWS", 0x1F: "SMI_EVENTS", 0x20: "SVM",
    0x21: "SET_XNACK_MODE", 0x23: "AVAILABLE_MEMORY", 0x24: "EXPORT_DMABUF",
    0x25: "RUNTIME_ENABLE", 0x26: "DBG_TRAP",
}
DRM = {0x00: "VERSION", 0x05: "GET_CLIENT", 0x09: "GEM_CLOSE", 0x0C: "GET_CAP",
       0x45: "AMDGPU_INFO"}
# Client and source ids of IH entries, see rust/abi/ih.rs.
CLIENTS = {10: "SE0SH", 20: "GRBM_CP", 8: "SDMA0", 9: "SDMA1", 1: "SDMA2", 4: "SDMA3"}
SOURCES = {181: "end of pipe", 183: "bad opcode", 184: "bad register", 224: "SDMA trap",
           239: "SQ message"}


def ioctl_name(cmd):
    """Returns the device and the name of an ioctl command."""
    kind, nr = chr(cmd >> 8 & 0xFF), cmd & 0xFF
    if kind == "K":
        return "kfd", KFD.get(nr, f"{nr:#04x}")
    if kind == "d":
        return "drm", DRM.get(nr, f"{nr:#04x}")
    return "other", f"{cmd:#x}"
