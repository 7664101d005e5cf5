#include "tools/subcommand.hpp"

namespace syncline {

std::vector<std::unique_ptr<Subcommand>> make_subcommands() {
  std::vector<std::unique_ptr<Subcommand>> all;
  all.push_back(make_run());
  all.push_back(make_show());
  all.push_back(make_schedule());
  all.push_back(make_pipeline());
  all.push_back(make_collective());
  all.push_back(make_experts());
  all.push_back(make_topology());
  all.push_back(make_calibrate());
  all.push_back(make_sweep());
  all.push_back(make_execute());
  all.push_back(make_compare());
  all.push_back(make_validate());
  all.push_back(make_score());
  all.push_back(make_doctor());
  return all;
}

}  // namespace syncline
