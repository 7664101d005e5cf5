#include "sim/pipeline/replay.hpp"
