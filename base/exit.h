// SPDX-License-Identifier: Apache-2.0
//
// The exit codes of kern-rank and kern. They are part of the interface: docs/exit-codes.md.
#ifndef KERN_BASE_EXIT_H
#define KERN_BASE_EXIT_H

enum kern_exit {
    KERN_EXIT_OK = 0,
    KERN_EXIT_CHECK = 1,    // the program ran; an output differs from what was expected
    KERN_EXIT_USAGE = 2,    // the command line, the number of ranks, or a file that cannot be read
    KERN_EXIT_MANIFEST = 3, // the manifest breaks a rule of the contract
    KERN_EXIT_ARTIFACT = 4, // a module, a checkpoint or an input does not fit the manifest
    KERN_EXIT_DEVICE = 5,   // a function of the driver, of a library or of the system failed
    KERN_EXIT_PEER = 6,     // a peer was lost or a deadline passed
};

#endif
