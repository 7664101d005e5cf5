#include "sim/pipeline/order.hpp"
