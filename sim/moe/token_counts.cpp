#include "sim/moe/token_counts.hpp"

#include <numeric>

#include "sim/core/error.hpp"

namespace syncline::moe {

void check_group(const ExpertGroup& group) {
  SYNCLINE_CHECK(group.ranks > 0 && group.experts > 0 && group.tokens > 0,
                 "a group has ranks, experts and tokens");
  SYNCLINE_CHECK(group.experts % group.ranks == 0, "every rank has as many experts");
  SYNCLINE_CHECK(group.top_k > 0 && group.top_k <= group.experts, "a token chooses 1 ... E experts");
  SYNCLINE_CHECK(group.ranks_per_node > 0 &&
                     (group.ranks <= group.ranks_per_node || group.ranks % group.ranks_per_node == 0),
                 "every node has as many ranks");
  SYNCLINE_CHECK(group.groups > 0 && group.experts % group.groups == 0, "every group has as many experts");
  SYNCLINE_CHECK(group.top_groups > 0 && group.top_groups <= group.groups &&
                     group.experts / group.groups * group.top_groups >= group.top_k,
                 "the groups of a token have k experts");
}

CountTable::CountTable(int rows, int columns)
    : rows_(rows),
      columns_(columns),
      cells_(static_cast<std::size_t>(rows) * static_cast<std::size_t>(columns)) {}

std::span<std::int64_t> CountTable::operator[](int row) {
  const auto n = static_cast<std::size_t>(columns_);
  return std::span(cells_).subspan(static_cast<std::size_t>(row) * n, n);
}
std::span<const std::int64_t> CountTable::operator[](int row) const {
  const auto n = static_cast<std::size_t>(columns_);
  return std::span(cells_).subspan(static_cast<std::size_t>(row) * n, n);
}

std::int64_t CountTable::sum() const {
  return std::accumulate(cells_.begin(), cells_.end(), std::int64_t{0});
}

std::vector<std::int64_t> CountTable::column_sums() const {
  std::vector<std::int64_t> sums(static_cast<std::size_t>(columns_));
  for (std::size_t i = 0; i < cells_.size(); ++i) sums[i % sums.size()] += cells_[i];
  return sums;
}

}  // namespace syncline::moe
