// Measured dispatch and combine beside what is predicted, by library, kernel and operation.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "sim/calibrate/expert_fit.hpp"

namespace syncline {

/// @throws InputError
[[nodiscard]] calibrate::ExpertTable read_expert_table(const std::string& file,
                                                       std::span<const ExpertLibrary> libraries);

class ExpertErrors {
 public:
  /// @param predicted  of the table's rows; nothing for those that are not counted
  ExpertErrors(const calibrate::ExpertTable& table, std::span<const ExpertLibrary> libraries,
               const std::vector<std::optional<Seconds>>& predicted);
  void print() const;
  [[nodiscard]] nlohmann::ordered_json groups_json() const;
  [[nodiscard]] nlohmann::ordered_json all_json() const;

 private:
  struct Group {
    std::string library, kernel, op;
    bool stands_in = false;
    calibrate::ExpertError error;
  };

  std::vector<Group> groups_;
  calibrate::ExpertError all_;
  std::vector<std::string> left_out_;
  int rows_ = 0;  // of the table, with those not predicted
};

}  // namespace syncline
