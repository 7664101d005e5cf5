// What is wrong with a cluster that is given vertex by vertex, with its place in the lists.
#pragma once

#include <cstddef>
#include <stdexcept>
#include <string>
#include <utility>

namespace syncline {

/// Thrown by build_topology() of a GraphSpec where one entry of a list, or one list, is to blame.
class GraphError : public std::invalid_argument {
 public:
  /// @param list   "vertices" or "edges", as files name them
  /// @param index  beyond its end: of all of the list
  GraphError(const std::string& reason, std::string list, std::size_t index)
      : std::invalid_argument(reason), list_(std::move(list)), index_(index) {}

  [[nodiscard]] const std::string& list() const { return list_; }
  [[nodiscard]] std::size_t index() const { return index_; }

 private:
  std::string list_;
  std::size_t index_;
};

}  // namespace syncline
