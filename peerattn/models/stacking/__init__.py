"""The stack: learners fitted at forward origins and weighed by what they predict for later periods."""
