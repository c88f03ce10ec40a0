// SPDX-License-Identifier: Apache-2.0
//
// The device code of edges as part of the program: the host half that emu loads, and PTX.
    .section .rodata
    .balign 16
    .globl kern_edge_host_half
    .hidden kern_edge_host_half
kern_edge_host_half:
    .incbin KERN_EDGE_HOST_HALF

    .balign 16
    .globl kern_edge_ptx
    .hidden kern_edge_ptx
kern_edge_ptx:
    .incbin KERN_EDGE_PTX
    .byte 0

    .section .note.GNU-stack, "", %progbits
