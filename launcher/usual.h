// SPDX-License-Identifier: Apache-2.0
//
// What kern-rank provides, and kern plan counts on, where the command line does not say it.
#ifndef KERN_LAUNCHER_USUAL_H
#define KERN_LAUNCHER_USUAL_H

#define KERN_USUAL_CAPACITY 4096 // tokens
#define KERN_USUAL_SEQS 8        // sequences

// Such a number as text, for help.
#define KERN_USUAL_TEXT(number) KERN_USUAL_QUOTE(number)
#define KERN_USUAL_QUOTE(number) #number

#endif
