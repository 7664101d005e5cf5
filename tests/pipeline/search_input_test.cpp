// What the searches make of unusual memory and of other units.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "sim/pipeline/generator.hpp"

using namespace syncline;
using namespace syncline::pipeline;

namespace {

Request request(ActivationMemory memory, std::optional<double> limit) {
  Request asked;
  asked.ranks = 4;
  asked.microbatches = 8;
  asked.memory = memory;
  asked.memory_limit = limit;
  return asked;
}

}  // namespace

TEST_SUITE("searches") {
  TEST_CASE("an input gradient may take memory, down to the least limit") {
    for (const char* name : {"zb-auto", "zb-v", "v-search"})
      for (const ActivationMemory memory : {ActivationMemory{2, 1, -3}, {1, 0, -1}, {2, -1, -1}}) {
        CAPTURE(name);
        CAPTURE(memory.backward_input);
        const Generator& generator = *find_generator(name);
        // One microbatch on every chunk, and what its I adds.
        const double least = generator.default_chunks + std::max(0.0, memory.backward_input) / memory.forward;
        const Order order = make_order(generator, request(memory, least));
        CHECK(deadlock(order).empty());
        CHECK(refusal(generator, request(memory, least * 0.99)).has_value());
      }
  }

  TEST_CASE("memory that does not end where it began is refused") {
    for (const ActivationMemory memory :
         {ActivationMemory{2, -1, -0.5}, {2, -1, -2}, {2, std::nan(""), -1}, {0, 0, 0}})
      CHECK(refusal(*find_generator("zb-auto"), request(memory, std::nullopt)).has_value());
  }

  TEST_CASE("the unit of time does not change the order") {
    for (const char* name : {"zb-auto", "zb-v"}) {
      const Generator& generator = *find_generator(name);
      Request plain = request({}, generator.name == "zb-auto" ? 4 : 8);
      const int stages = stage_count(generator, 4, generator.default_chunks);
      plain.costs = uniform_costs(stages, {Seconds(10), Seconds(12), Seconds(7)}, Seconds(3));
      Request milli = plain;
      milli.costs = uniform_costs(stages, {Seconds(0.010), Seconds(0.012), Seconds(0.007)}, Seconds(0.003));
      CHECK(make_order(generator, plain) == make_order(generator, milli));
    }
  }
}
