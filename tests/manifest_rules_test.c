// SPDX-License-Identifier: Apache-2.0
//
// The rules of the contract, a refused and an accepted manifest for each clause.
#include "tests/manifest_rules_case.h"

int main(void)
{
    return rules_of_declarations() + rules_of_buffers() + rules_of_launches() + rules_of_wiring() +
           rules_of_packs() + rules_of_builtins() + rules_of_programs();
}
