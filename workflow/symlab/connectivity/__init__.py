"""Loss and accuracy on the straight line between two networks, and the barriers read off them."""
