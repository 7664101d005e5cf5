#include "tests/report/golden.hpp"

#include <cstdlib>
#include <fstream>
#include <sstream>

namespace syncline::test {

std::string golden(const std::string& name, const std::string& actual) {
  const std::string path = std::string(SYNCLINE_SOURCE_DIR) + "/tests/report/golden/" + name;
  if (std::getenv("SYNCLINE_UPDATE_GOLDEN") != nullptr) std::ofstream(path) << actual;
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

}  // namespace syncline::test
