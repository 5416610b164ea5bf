// All engines of the process, for what concerns them together: a fork.

#pragma once

namespace pgmo {

class Engine;

// From then on a forked child finds the engine unlocked and in bypass: it has a copy of every
// block, but it is not the program whose requests were planned.
void register_engine(Engine* engine);
void unregister_engine(Engine* engine);

}  // namespace pgmo
