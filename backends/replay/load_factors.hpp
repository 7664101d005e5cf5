// How much of an op's work a rank that is played has: the schedule's loads, by seat.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/schedule/fold.hpp"
#include "sim/schedule/schedule.hpp"

namespace syncline {

class LoadFactors {
 public:
  LoadFactors(const Schedule& schedule, const Cast& cast);
  /// Factor on the op's time, and on its memory by load.
  [[nodiscard]] double of(const Op& op, std::uint32_t seat) const;

 private:
  struct Place {
    std::uint32_t in_group = 0,
                  of_all = 0;  // among the members of the group, and of all groups one after another
  };

  const Schedule& schedule_;
  std::vector<std::vector<Place>> places_;  // [family][seat]; empty where the family has no load
  std::vector<std::size_t> members_;        // by family: of all groups
};

}  // namespace syncline
