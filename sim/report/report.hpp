// Everything that is made from a run: metrics, summary, terminal picture, trace file.
#pragma once

#include "sim/report/claims.hpp"
#include "sim/report/gantt.hpp"
#include "sim/report/metrics.hpp"
#include "sim/report/summary.hpp"
#include "sim/timeline/trace.hpp"
