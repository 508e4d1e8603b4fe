"""What makes the stand-in a stand-in: the writer of objects, and the switches of tests. No part of the vendor's tree."""
