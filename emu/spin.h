// SPDX-License-Identifier: Apache-2.0
//
// Waits for what another thread or process is about to do, by looking again and again.
#ifndef EMU_SPIN_H
#define EMU_SPIN_H

#include <stdbool.h>

// Waits a little between two looks: some pauses, then the processor is given away [yields] times.
// False when it is time to sleep. [looks] counts them, from 0 on.
bool emu_spin(int *looks, int yields);

// The same, but sleeps a little when it is time to.
void emu_relax(int *looks);

#endif
