// Small changes to an order, kept while they help.
#pragma once

#include "sim/pipeline/search/task.hpp"

namespace syncline::pipeline::search {

/// Iterated local search. Moves actions of the critical path to other places on their ranks as long as a move
/// helps; then a few at random, and again; what is best stays. The same arguments give the same result.
///
/// @param order         within the limit, before and after
/// @param budget        actions timed, over all tries
/// @param longest_span  that the result may have [s]; that of `order` at least
/// @returns             the score of the result
/// Method: Lourenço, Martin and Stützle, Iterated Local Search (Handbook of Metaheuristics, 2003); that only
/// moves on the critical path can help: van Laarhoven, Aarts and Lenstra, Operations Research 40 (1992).
Score improve(const Task& task, Order& order, long budget, double longest_span);

}  // namespace syncline::pipeline::search
