// A network listener that notes when each token ended, and in which order.
#pragma once

#include <map>
#include <vector>

#include "sim/network/network.hpp"

namespace syncline::testing {

class Ends : public NetworkListener {
 public:
  explicit Ends(const Network& clock) : clock_(clock) {}
  void on_done(Token token) override {
    at[token] = clock_.now().si();
    order.push_back(token);
  }

  std::map<Token, double> at;  // s
  std::vector<Token> order;

 private:
  const Network& clock_;
};

}  // namespace syncline::testing
