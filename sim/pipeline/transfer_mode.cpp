#include "sim/pipeline/lower.hpp"

namespace syncline::pipeline {

std::string_view name_of(TransferMode mode) {
  switch (mode) {
    case TransferMode::Eager: return "eager";
    case TransferMode::Overlapped: return "overlapped";
    case TransferMode::Blocking: return "blocking";
  }
  return "";
}

}  // namespace syncline::pipeline
