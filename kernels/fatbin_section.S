// SPDX-License-Identifier: Apache-2.0
//
// Puts nvcc's fatbin, KERN_FATBIN, into the section where GPU code of a host object lies.
    .section .nv_fatbin, "a"
    .balign 8
    .incbin KERN_FATBIN

    .section .note.GNU-stack, "", %progbits
